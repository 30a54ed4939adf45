"""Find a font in which Latin and Chinese text are legible on any machine."""

from functools import cache
from importlib.resources import files

from matplotlib.font_manager import FontProperties, fontManager

PACKAGE = "pylopdf-fonts-zh-cn"
FONT_FILE = "NotoSansSC-Regular.otf"
FAMILIES = ("Noto Sans SC", "DejaVu Sans")


def text_font(size: float) -> FontProperties:
    """Return Noto Sans SC in `size` points; DejaVu Sans stands in for scripts that it lacks.

    Raises:
        FileNotFoundError: The package that carries the font is not installed.
    """
    _register_font()
    return FontProperties(family=list(FAMILIES), size=size)


@cache
def _register_font() -> None:
    try:
        path = files(PACKAGE.replace("-", "_")) / FONT_FILE
    except ModuleNotFoundError:
        raise FileNotFoundError(
            f"the font for pictures with Chinese text is missing; pip install {PACKAGE}"
        ) from None
    fontManager.addfont(str(path))
