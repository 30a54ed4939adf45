"""Write everyday sentences around cats, cars and people, one function for each kind of sentence.

Every function yields all its sentences, without final punctuation on the Chinese side.
"""

from collections.abc import Callable, Iterator
from itertools import combinations, product

from hf_vanilla_transformer.data.corpus import Pair
from hf_vanilla_transformer.quickstart.words import (
    ANIMAL_COLOURS,
    ANIMAL_QUALITIES,
    ANIMALS,
    BUY,
    BY_SIZE,
    BY_SPEED,
    COLOURS,
    DRAW,
    DRINK,
    DRINKS,
    EAT,
    FOODS,
    GO,
    HAVE,
    LIKE,
    LOVE,
    NUMBERS,
    OWNERS,
    PEOPLE,
    PLACES,
    RAIN,
    RIDES,
    SEE,
    SELL,
    SMALL_ANIMALS,
    SMALL_VEHICLES,
    SNOW,
    SPEAKERS,
    SPOTS,
    THINGS,
    TIMES,
    VEHICLE_QUALITIES,
    VEHICLES,
    WARMTH,
    Noun,
    Person,
)


def tastes() -> Iterator[Pair]:
    """Say what people love, like, dislike and fear: 我爱猫, "I love cats."."""
    for person, noun in product(PEOPLE, ANIMALS + VEHICLES):
        for verb in (LOVE, LIKE):
            yield _say(
                f"{person.chinese}{verb.chinese}{noun.chinese}",
                f"{person.english} {verb.present(person)} {noun.plural}",
            )
        yield _say(
            f"{person.chinese}不喜欢{noun.chinese}",
            f"{person.english} {_do(person)} not like {noun.plural}",
        )
        yield _say(
            f"{person.chinese}怕{noun.chinese}",
            f"{person.english} {person.be} afraid of {noun.plural}",
        )
        if person not in SPEAKERS:
            yield _ask(
                f"{person.chinese}喜欢{noun.chinese}吗",
                f"{_do(person)} {person.english} like {noun.plural}",
            )


def belongings() -> Iterator[Pair]:
    """Say what people have: 我有两只白色的猫, "I have two white cats."."""
    for person, noun in product(PEOPLE, SMALL_ANIMALS + SMALL_VEHICLES + THINGS):
        for chinese, english in _counted(noun):
            yield _say(
                f"{person.chinese}有{chinese}", f"{person.english} {HAVE.present(person)} {english}"
            )
        article = _with_article(noun.english)
        yield _say(
            f"{person.chinese}没有{noun.chinese}",
            f"{person.english} {_do(person)} not have {article}",
        )
        if person not in SPEAKERS:
            yield _ask(
                f"{person.chinese}有{noun.chinese}吗",
                f"{_do(person)} {person.english} have {article}",
            )


def deeds() -> Iterator[Pair]:
    """Say what people did yesterday and will do tomorrow."""
    wares = SMALL_VEHICLES + THINGS
    seen = ANIMALS + VEHICLES + THINGS
    for verb, nouns in ((SEE, seen), (DRAW, seen), (BUY, wares), (SELL, wares)):
        for person, noun in product(PEOPLE, nouns):
            who = person.chinese
            for chinese, english in _counted(noun):
                yield _say(
                    f"{who}昨天{verb.chinese}了{chinese}",
                    f"{person.english} {verb.past} {english} yesterday",
                )
                yield _say(
                    f"{who}明天会{verb.chinese}{chinese}",
                    f"{person.english} will {verb.base} {english} tomorrow",
                )
            yield _say(
                f"{who}昨天没{verb.chinese}{noun.chinese}",
                f"{person.english} did not {verb.base} {_with_article(noun.english)} yesterday",
            )


def meals() -> Iterator[Pair]:
    """Say what people eat and drink, and when."""
    for verb, dishes in ((EAT, FOODS), (DRINK, DRINKS)):
        for person, (dish, english) in product(PEOPLE, dishes.items()):
            who, what = person.chinese, f"{verb.chinese}{dish}"
            yield _say(
                f"{who}正在{what}", f"{person.english} {person.be} {verb.participle} {english}"
            )
            yield _say(
                f"{who}不{what}", f"{person.english} {_do(person)} not {verb.base} {english}"
            )
            for time, when in TIMES.items():
                yield _say(
                    f"{who}{time}{what}",
                    f"{person.english} {verb.present(person)} {english} {when}",
                )
                if person not in SPEAKERS:
                    yield _ask(
                        f"{who}{time}{what}吗",
                        f"{_do(person)} {person.english} {verb.base} {english} {when}",
                    )


def positions() -> Iterator[Pair]:
    """Say where things are: 猫在桌子下面, "The cat is under the table."."""
    for noun, (spot, where) in product(SMALL_ANIMALS + THINGS, SPOTS.items()):
        if noun.chinese in spot:
            continue
        yield _say(f"{noun.chinese}在{spot}", f"the {noun.english} is {where}")
        yield _ask(f"{noun.chinese}在{spot}吗", f"is the {noun.english} {where}")
        for number, count in NUMBERS.items():
            amount = _with_article(noun.english) if number == "一" else f"{count} {noun.plural}"
            be = "is" if number == "一" else "are"
            yield _say(
                f"{spot}有{number}{noun.measure}{noun.chinese}", f"there {be} {amount} {where}"
            )


def whereabouts() -> Iterator[Pair]:
    """Say where people are, and ask where things are: 妈妈在家, "Mom is at home."."""
    for noun in ANIMALS + VEHICLES + THINGS:
        yield _ask(f"{noun.chinese}在哪里", f"where is the {noun.english}")
    for person, place in product(PEOPLE, PLACES):
        who, at, where = person.chinese, place.chinese_at, place.english_at
        yield _say(f"{who}{at}", f"{person.english} {person.be} {where}")
        yield _say(f"{who}不{at}", f"{person.english} {person.be} not {where}")
        yield _say(f"{who}昨天{at}", f"{person.english} {person.was} {where} yesterday")
        yield _say(f"{who}明天会{at}", f"{person.english} will be {where} tomorrow")
        if person not in SPEAKERS:
            yield _ask(f"{who}{at}吗", f"{person.be} {person.english} {where}")


def looks() -> Iterator[Pair]:
    """Say which colour and quality things have: 这辆汽车是红色的, "This car is red."."""
    for noun in ANIMALS + VEHICLES:
        owned = {f"{owner}的{noun.chinese}": english for owner, english in OWNERS.items()}
        pointed = {
            f"{pointer}{noun.measure}{noun.chinese}": english
            for pointer, english in {"这": "this", "那": "that"}.items()
        }
        qualities = ANIMAL_QUALITIES if noun in ANIMALS else VEHICLE_QUALITIES
        for chinese, determiner in (owned | pointed).items():
            subject = f"{determiner} {noun.english}"
            for colour, english in _colours(noun).items():
                yield _say(f"{chinese}是{colour}的", f"{subject} is {english}")
                yield _ask(f"{chinese}是{colour}的吗", f"is {subject} {english}")
            for quality, english in qualities.items():
                yield _say(f"{chinese}很{quality}", f"{subject} is very {english}")
                yield _say(f"{chinese}太{quality}了", f"{subject} is too {english}")
                yield _say(f"{chinese}不{quality}", f"{subject} is not {english}")
                yield _ask(f"{chinese}{quality}吗", f"is {subject} {english}")


def comparisons() -> Iterator[Pair]:
    """Compare size and speed: 大象比猫大, "The elephant is bigger than the cat."."""
    for order, less, more in (
        (BY_SIZE, ("小", "smaller"), ("大", "bigger")),
        (BY_SPEED, ("慢", "slower"), ("快", "faster")),
    ):
        for low, high in combinations(order, 2):
            for first, second, (chinese, english) in ((low, high, less), (high, low, more)):
                yield _say(
                    f"{first.chinese}比{second.chinese}{chinese}",
                    f"the {first.english} is {english} than the {second.english}",
                )


def journeys() -> Iterator[Pair]:
    """Say where people go, and how: 我坐火车去学校, "I go to school by train."."""
    for person, place, (ride, means) in product(PEOPLE, PLACES, RIDES.items()):
        who, to, where = person.chinese, f"{ride}{place.chinese_to}", place.english_to
        go = GO.present(person)
        yield _say(f"{who}每天{to}", f"{person.english} {go} {where} {means} every day")
        yield _say(f"{who}{to}", f"{person.english} {go} {where} {means}")
        yield _say(f"{who}昨天{to}了", f"{person.english} {GO.past} {where} {means} yesterday")
        yield _say(f"{who}明天会{to}", f"{person.english} will go {where} {means} tomorrow")


def weather() -> Iterator[Pair]:
    """Speak of the weather, and of what people do because of it."""
    for quality, english in WARMTH.items():
        for degree, adverb in {"很": "very", "不": "not", "太": "too"}.items():
            end = "了" if degree == "太" else ""
            yield _say(f"今天{degree}{quality}{end}", f"it is {adverb} {english} today")
            yield _say(f"昨天{degree}{quality}{end}", f"it was {adverb} {english} yesterday")
        yield _say(f"明天会很{quality}", f"it will be very {english} tomorrow")
        for person, place in product(PEOPLE, PLACES):
            yield _say(
                f"今天很{quality}，所以{person.chinese}{place.chinese_at}",
                f"it is very {english} today, so {person.english} {person.be} {place.english_at}",
            )
    for rain in (RAIN, SNOW):
        today, is_raining = f"今天{rain.chinese}", f"it is {rain.participle} today"
        yesterday, rained = f"昨天{rain.chinese}了", f"it {rain.past} yesterday"
        tomorrow, will_rain = f"明天会{rain.chinese}", f"it will {rain.base} tomorrow"
        yield _say(today, is_raining)
        yield _say(yesterday, rained)
        yield _say(tomorrow, will_rain)
        for person, place in product(PEOPLE, PLACES):
            who, to, go = person.chinese, place.chinese_to, f"go {place.english_to}"
            yield _say(
                f"{today}，所以{who}{place.chinese_at}",
                f"{is_raining}, so {person.english} {person.be} {place.english_at}",
            )
            yield _say(
                f"{yesterday}，所以{who}没{to}", f"{rained}, so {person.english} did not {go}"
            )
            yield _say(
                f"{tomorrow}，所以{who}不会{to}", f"{will_rain}, so {person.english} will not {go}"
            )


KINDS: tuple[Callable[[], Iterator[Pair]], ...] = (
    tastes,
    belongings,
    deeds,
    meals,
    positions,
    whereabouts,
    looks,
    comparisons,
    journeys,
    weather,
)


def _say(chinese: str, english: str) -> Pair:
    return Pair(chinese, f"{english[0].upper()}{english[1:]}.")


def _ask(chinese: str, english: str) -> Pair:
    return Pair(chinese, f"{english[0].upper()}{english[1:]}?")


def _do(person: Person) -> str:
    return "does" if person.be == "is" else "do"


def _with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _colours(noun: Noun) -> dict[str, str]:
    return ANIMAL_COLOURS if noun in ANIMALS else COLOURS


def _counted(noun: Noun) -> Iterator[tuple[str, str]]:
    """Yield the noun with every number, bare and in every colour."""
    paints = {"": ""} | {f"{colour}的": f"{word} " for colour, word in _colours(noun).items()}
    for (number, count), (paint, word) in product(NUMBERS.items(), paints.items()):
        chinese = f"{number}{noun.measure}{paint}{noun.chinese}"
        if number == "一":
            yield chinese, _with_article(f"{word}{noun.english}")
        else:
            yield chinese, f"{count} {word}{noun.plural}"
