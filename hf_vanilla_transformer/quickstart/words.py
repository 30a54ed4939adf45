"""Hold the words of the demo corpus, Chinese beside English."""

from typing import NamedTuple


class Noun(NamedTuple):
    """Name a countable thing with its Chinese measure word."""

    chinese: str
    english: str
    measure: str
    irregular_plural: str = ""

    @property
    def plural(self) -> str:
        """Return the English plural."""
        return self.irregular_plural or f"{self.english}s"


class Person(NamedTuple):
    """Name a subject of a sentence; `be` is the present of "be" that agrees with it."""

    chinese: str
    english: str
    be: str

    @property
    def was(self) -> str:
        """Return the past of "be" that agrees with the person."""
        return "were" if self.be == "are" else "was"


class Verb(NamedTuple):
    """Name an action: base form, third person singular, simple past, present participle."""

    chinese: str
    base: str
    third: str
    past: str
    participle: str

    def present(self, person: Person) -> str:
        """Return the simple present that agrees with `person`."""
        return self.third if person.be == "is" else self.base


class Place(NamedTuple):
    """Name a place with the words for being there and for going there."""

    chinese_at: str
    chinese_to: str
    english_at: str
    english_to: str


SMALL_ANIMALS = (
    Noun("小猫", "kitten", "只"),
    Noun("小狗", "puppy", "只", "puppies"),
    Noun("猫", "cat", "只"),
    Noun("狗", "dog", "只"),
    Noun("兔子", "rabbit", "只"),
    Noun("鸭子", "duck", "只"),
    Noun("猴子", "monkey", "只"),
    Noun("狐狸", "fox", "只", "foxes"),
)
BIG_ANIMALS = (
    Noun("老虎", "tiger", "只"),
    Noun("马", "horse", "匹"),
    Noun("牛", "cow", "头"),
    Noun("大象", "elephant", "头"),
)
ANIMALS = SMALL_ANIMALS + BIG_ANIMALS
SMALL_VEHICLES = (
    Noun("自行车", "bicycle", "辆"),
    Noun("摩托车", "motorcycle", "辆"),
    Noun("汽车", "car", "辆"),
    Noun("出租车", "taxi", "辆"),
)
BIG_VEHICLES = (
    Noun("公交车", "bus", "辆", "buses"),
    Noun("卡车", "truck", "辆"),
    Noun("火车", "train", "列"),
)
VEHICLES = SMALL_VEHICLES + BIG_VEHICLES
BOX = Noun("箱子", "box", "个", "boxes")
BASKET = Noun("篮子", "basket", "个")
HAT = Noun("帽子", "hat", "顶")
THINGS = (
    Noun("书", "book", "本"),
    Noun("球", "ball", "个"),
    HAT,
    Noun("雨伞", "umbrella", "把"),
    Noun("苹果", "apple", "个"),
    BOX,
    BASKET,
)
MEALS = (
    Noun("鱼", "fish", "条", "fish"),
    Noun("面包", "bread", "块"),
    Noun("蛋糕", "cake", "块"),
    Noun("土豆", "potato", "个", "potatoes"),
)

PEOPLE = (
    Person("我", "I", "am"),
    Person("你", "you", "are"),
    Person("他", "he", "is"),
    Person("她", "she", "is"),
    Person("我们", "we", "are"),
    Person("他们", "they", "are"),
    Person("妈妈", "Mom", "is"),
    Person("爸爸", "Dad", "is"),
    Person("老师", "the teacher", "is"),
    Person("医生", "the doctor", "is"),
    Person("我的朋友", "my friend", "is"),
)
SPEAKERS = (PEOPLE[0], PEOPLE[4])
OWNERS = {"我": "my", "你": "your", "他": "his", "她": "her", "我们": "our", "他们": "their"}

NUMBERS = {"一": "a", "两": "two", "三": "three", "四": "four", "五": "five", "十": "ten"}
ANIMAL_COLOURS = {"黑色": "black", "白色": "white", "灰色": "gray", "棕色": "brown"}
COLOURS = ANIMAL_COLOURS | {
    "红色": "red",
    "蓝色": "blue",
    "绿色": "green",
    "黄色": "yellow",
    "橙色": "orange",
}

PLACES = (
    Place("在家", "回家", "at home", "home"),
    Place("在公园里", "去公园", "in the park", "to the park"),
    Place("在学校", "去学校", "at school", "to school"),
    Place("在车站", "去车站", "at the station", "to the station"),
    Place("在商店里", "去商店", "in the store", "to the store"),
    Place("在医院里", "去医院", "in the hospital", "to the hospital"),
)
SPOTS = {
    f"{thing}{side}": f"{preposition} the {noun}"
    for thing, noun in {"桌子": "table", "椅子": "chair", "床": "bed", "汽车": "car"}.items()
    for side, preposition in {
        "上面": "on",
        "下面": "under",
        "旁边": "next to",
        "后面": "behind",
    }.items()
} | {"箱子里面": "in the box", "篮子里面": "in the basket", "汽车里面": "in the car"}
RIDES = {
    "坐公交车": "by bus",
    "坐火车": "by train",
    "坐出租车": "by taxi",
    "开汽车": "by car",
    "骑自行车": "by bicycle",
    "骑摩托车": "by motorcycle",
}

LOVE = Verb("爱", "love", "loves", "loved", "loving")
LIKE = Verb("喜欢", "like", "likes", "liked", "liking")
HAVE = Verb("有", "have", "has", "had", "having")
SEE = Verb("看见", "see", "sees", "saw", "seeing")
DRAW = Verb("画", "draw", "draws", "drew", "drawing")
BUY = Verb("买", "buy", "buys", "bought", "buying")
SELL = Verb("卖", "sell", "sells", "sold", "selling")
EAT = Verb("吃", "eat", "eats", "ate", "eating")
DRINK = Verb("喝", "drink", "drinks", "drank", "drinking")
GO = Verb("去", "go", "goes", "went", "going")
FOODS = {
    "面包": "bread",
    "米饭": "rice",
    "蛋糕": "cake",
    "鱼": "fish",
    "苹果": "apples",
    "面条": "noodles",
}
DRINKS = {"水": "water", "牛奶": "milk", "茶": "tea", "咖啡": "coffee"}
ANIMAL_QUALITIES = {
    "可爱": "cute",
    "累": "tired",
    "饿": "hungry",
    "困": "sleepy",
    "胖": "fat",
    "强壮": "strong",
}
VEHICLE_QUALITIES = {"快": "fast", "慢": "slow", "新": "new", "旧": "old", "贵": "expensive"}
TIMES = {"每天": "every day", "早上": "in the morning", "晚上": "in the evening"}
WARMTH = {"冷": "cold", "热": "hot", "暖和": "warm"}
RAIN = Verb("下雨", "rain", "rains", "rained", "raining")
SNOW = Verb("下雪", "snow", "snows", "snowed", "snowing")

_NOUNS = {noun.chinese: noun for noun in ANIMALS + VEHICLES}
BY_SIZE = tuple(
    _NOUNS[name]
    for name in (
        *("鸭子", "小猫", "兔子", "猫", "狐狸", "狗", "老虎", "马", "牛", "大象"),
        *("公交车", "火车"),
    )
)
BY_SPEED = tuple(
    _NOUNS[name] for name in ("鸭子", "小狗", "猫", "自行车", "马", "公交车", "汽车", "火车")
)
