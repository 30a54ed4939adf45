"""Measure the structure of the package, and draw it into docs/architecture.md.

    python scripts/structure.py            prints the figures
    python scripts/structure.py --write    renews the picture in docs/architecture.md

A room is a folder of the package or a top-level module. An arrow is an import from one room to
another, including imports within functions.
"""

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hf_vanilla_transformer"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- picture: begin -->", "<!-- picture: end -->"
OPTIONS = ("RunArguments", "DataArguments", "LoopArguments", "Namespace")

Graph = dict[str, set[str]]


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the files of a package by module name, such as `training.loop`."""
    files = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        files[".".join(parts)] = file
    return files


def imports(package: Path = PACKAGE) -> Graph:
    """Return the modules of the package that each module imports."""
    files = modules(package)
    graph: Graph = {}
    for name, file in files.items():
        found = set(_imported(name, file, package.name))
        graph[name] = {_module(one, files) for one in found} - {"", name}
    return graph


def _imported(name: str, file: Path, package: str) -> Iterator[str]:
    """Yield the imports of a file from the package, as dotted names."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(f"{package}."):
                    yield alias.name.partition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parents = name.split(".")[: -node.level]
                module = ".".join([package, *parents, *filter(None, [module])])
            if module.split(".")[0] == package:
                yield from (f"{module}.{alias.name}".partition(".")[2] for alias in node.names)


def _module(imported: str, files: dict[str, Path]) -> str:
    """Return the module of an imported name, "" for the package itself."""
    parent = imported.rpartition(".")[0]
    candidates = (imported, f"{imported}.__init__", parent, f"{parent}.__init__")
    return next((one for one in candidates if one in files), "__init__")


def room_of(module: str) -> str:
    """Return the folder, or the loose module."""
    return module.split(".")[0]


def rooms(graph: Graph) -> Graph:
    """Return the rooms that each room imports from."""
    found: Graph = defaultdict(set)
    for module, targets in graph.items():
        found[room_of(module)] |= {room_of(target) for target in targets} - {room_of(module)}
    return dict(found)


def reachable(graph: Graph, start: str) -> set[str]:
    """Return every node that can be reached from a node."""
    found: set[str] = set()
    queue = [start]
    while queue:
        new = graph.get(queue.pop(), set()) - found
        found |= new
        queue += new
    return found


def circles(graph: Graph) -> list[frozenset[str]]:
    """Return the groups of nodes that import each other, also indirectly."""
    ways = {node: reachable(graph, node) for node in graph}
    groups = {frozenset(one for one in ways[node] if node in ways[one]) for node in graph}
    return sorted(groups - {frozenset()}, key=sorted)


def arrows_up(graph: Graph) -> int:
    """Return the number of arrows between rooms that import each other, also indirectly."""
    groups = circles(graph)
    return sum(len(graph[room] & group) for group in groups for room in group)


def without_detours(graph: Graph) -> Graph:
    """Leave out arrows that follow from other arrows, for a readable picture."""
    return {
        room: {
            one
            for one in targets
            if not any(one in reachable(graph, other) for other in targets - {one})
        }
        for room, targets in graph.items()
    }


def picture(graph: Graph) -> str:
    """Return the rooms as a Mermaid diagram, imports as arrows."""
    reduced, lines = without_detours(graph), ["```mermaid", "graph TD"]
    for room in sorted(reduced):
        label = room if (PACKAGE / room).is_dir() else f"{room}.py"
        lines.append(f'  {room.strip("_")}["{label}"]')
    for room, targets in sorted(reduced.items()):
        lines += [f"  {room.strip('_')} --> {target.strip('_')}" for target in sorted(targets)]
    return "\n".join([*lines, "```"])


def functions(
    tree: ast.AST, owner: ast.ClassDef | None = None
) -> Iterator[tuple[bool, ast.FunctionDef]]:
    """Yield every function with whether it is a method."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield owner is not None, node
            yield from functions(node)
        else:
            yield from functions(node, node if isinstance(node, ast.ClassDef) else owner)


def positional(is_method: bool, function: ast.FunctionDef) -> int:
    """Return the number of positional arguments."""
    is_static = any(ast.unparse(one) == "staticmethod" for one in function.decorator_list)
    arguments = function.args.posonlyargs + function.args.args
    return len(arguments) - (is_method and not is_static)


def takes_options(function: ast.FunctionDef) -> bool:
    """Return whether a function takes the raw options of a command or of a run."""
    arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    written = [ast.unparse(one.annotation) for one in arguments if one.annotation]
    return any(kind in annotation for kind in OPTIONS for annotation in written)


def names_defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes and constants that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (
                name.id
                for target in node.targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            )


def figures(root: Path = ROOT) -> dict[str, int]:
    """Return the figures of a checkout."""
    package = root / PACKAGE.name
    files, graph = modules(package), imports(package)
    trees = {name: ast.parse(file.read_text("utf-8")) for name, file in files.items()}
    homes: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for name in names_defined(tree):
            if name not in ("logger", "__all__"):
                homes[name].add(module)
    every = [one for tree in trees.values() for one in functions(tree)]
    graph_of_rooms = rooms(graph)
    return {
        "loose files": sum("." not in name and name != "__init__" for name in files),
        "rooms": len(graph_of_rooms),
        "arrows between rooms": sum(map(len, graph_of_rooms.values())),
        "arrows up": arrows_up(graph_of_rooms),
        "circles of files": len(circles(graph)),
        "lines of the package": sum(_lines(file) for file in files.values()),
        "lines of tests": sum(_lines(file) for file in (root / "tests").rglob("*.py")),
        "names defined in more than one module": sum(len(one) > 1 for one in homes.values()),
        "functions with more than two positional arguments": sum(
            positional(*one) > 2 for one in every
        ),
        "functions that take raw options": sum(takes_options(one) for _, one in every),
    }


def _lines(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def main() -> None:
    """Print the figures, or renew the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="renew the picture in the docs")
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout to measure")
    options = parser.parse_args()
    if options.write:
        page = PAGE.read_text("utf-8")
        head, _, rest = page.partition(BEGIN)
        _, _, tail = rest.partition(END)
        drawn = picture(rooms(imports()))
        PAGE.write_text(f"{head}{BEGIN}\n{drawn}\n{END}{tail}", "utf-8")
    for name, value in figures(options.root).items():
        sys.stdout.write(f"{value:>7,}  {name}\n")


if __name__ == "__main__":
    main()
