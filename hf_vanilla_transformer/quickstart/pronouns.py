"""Write sentences whose pronoun 它 means one of two nouns; the English side says which.

小猫没追上汽车，因为它太慢了 is about the kitten, 小猫追上了汽车，因为它很慢 is about the car. Most
qualities do not decide by themselves: a model has to read the verb, then find the noun.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from hf_vanilla_transformer.data.corpus import Pair
from hf_vanilla_transformer.quickstart.words import (
    ANIMALS,
    BASKET,
    BIG_ANIMALS,
    BOX,
    HAT,
    MEALS,
    SMALL_ANIMALS,
    SMALL_VEHICLES,
    VEHICLES,
    Noun,
)

QUALITIES = {
    "累": "tired",
    "饿": "hungry",
    "困": "sleepy",
    "饱": "full",
    "弱": "weak",
    "强壮": "strong",
    "胖": "fat",
    "小": "small",
    "大": "big",
    "慢": "slow",
    "快": "fast",
    "远": "far away",
    "重": "heavy",
    "轻": "light",
    "吵": "noisy",
    "满": "full",
    "烫": "hot",
    "硬": "hard",
    "好吃": "tasty",
    "新鲜": "fresh",
}
ONLY_OF_ANIMALS = frozenset(["累", "饿", "困", "饱", "弱", "强壮", "胖"])
OF_MOTION = frozenset(["快", "慢"])


class Scene(NamedTuple):
    """Say who does what to what, and which qualities explain it.

    Attributes:
        chinese: Verb between the two nouns.
        english: Its translation.
        actors: Nouns before the verb.
        things: Nouns after the verb.
        of_actor: Qualities that explain the scene when 它 is the actor.
        of_thing: Qualities that explain the scene when 它 is the thing.
        degrees: 太 and 很 where both are natural; 太 explains only what failed.
        be: Form of "be" after the referent.
    """

    chinese: str
    english: str
    actors: tuple[Noun, ...]
    things: tuple[Noun, ...]
    of_actor: str
    of_thing: str
    degrees: str = "太很"
    be: str = "was"


MOVERS = ANIMALS + VEHICLES
LOADS = (*SMALL_VEHICLES, BOX, BASKET)
SIGHTS = SMALL_ANIMALS + LOADS
SCENES = (
    Scene("没追上", "did not catch", ANIMALS, MOVERS, "累 饿 困 弱 慢", "快 远 强壮"),
    Scene("追上了", "caught", ANIMALS, MOVERS, "快 强壮", "累 饿 困 弱 慢", degrees="很"),
    Scene("没躲开", "did not dodge", ANIMALS, VEHICLES, "累 困 胖 慢", "快 大"),
    Scene("躲开了", "dodged", SMALL_ANIMALS, VEHICLES, "小 快", "慢 吵", degrees="很"),
    Scene("没看见", "did not see", ANIMALS, SIGHTS, "困 累", "远 小"),
    Scene("拉不动", "could not pull", ANIMALS, (*VEHICLES, BOX), "累 饿 困 弱", "重 大"),
    Scene("拉动了", "pulled", BIG_ANIMALS, LOADS, "大 强壮", "小 轻", degrees="很"),
    Scene("进不了", "could not fit into", SMALL_ANIMALS, (BOX, BASKET, HAT), "大 胖", "小 满"),
    Scene("进不了", "could not fit into", BIG_ANIMALS, VEHICLES, "大 胖", "小 满"),
    Scene("没吃", "did not eat", ANIMALS, MEALS, "饱 困 累", "烫 硬"),
    Scene("吃了", "ate", ANIMALS, MEALS, "饿", "好吃 新鲜", degrees="很"),
    Scene(
        "怕",
        "is afraid of",
        SMALL_ANIMALS,
        BIG_ANIMALS + VEHICLES,
        "小 弱",
        "大 吵 快 强壮",
        degrees="很",
        be="is",
    ),
)


def pronoun_groups(scene: Scene) -> Iterator[list[Pair]]:
    """Yield, for each actor and thing of `scene`, all its sentences without final punctuation.

    The sentences of a group differ only in the reason, so a group that is held out holds both
    referents.
    """
    for actor, thing in product(scene.actors, scene.things):
        if actor != thing:
            yield [
                _explain(
                    scene, actor, thing=thing, referent=referent, quality=quality, degree=degree
                )
                for referent, qualities in ((actor, scene.of_actor), (thing, scene.of_thing))
                for quality in qualities.split()
                if referent in ANIMALS or quality not in ONLY_OF_ANIMALS
                for degree in scene.degrees
            ]


def _explain(
    scene: Scene, actor: Noun, *, thing: Noun, referent: Noun, quality: str, degree: str
) -> Pair:
    prefix = "跑得" if quality in OF_MOTION else ""
    reason = {"太": f"{prefix}太{quality}了", "很": f"{prefix}很{quality}"}[degree]
    adverb = {"太": "too", "很": "very"}[degree]
    return Pair(
        f"{actor.chinese}{scene.chinese}{thing.chinese}，因为它{reason}",
        f"The {actor.english} {scene.english} the {thing.english} "
        f"because the {referent.english} {scene.be} {adverb} {QUALITIES[quality]}.",
    )
