"""Translations with references, and what sacreBLEU says of them, for several tests."""

import sacrebleu

# https://github.com/mjpost/sacrebleu/issues/220
HYPOTHESES = [
    "the cat sat on the mat today",
    "a dog ran across the wide street",
    "birds sing loudly every single morning",
]
REFERENCES = [
    "the cat sat on the mat today",
    "one dog was running over a big road",
    "every morning the birds are singing",
]
SIGNATURE = "|case:mixed|eff:no|tok:13a|smooth:exp|version:" + sacrebleu.__version__
# Of each language: sentence by sentence a translation and two references.
ROWS = {
    "en": [
        ("The cat isn't on the mat.", "The cat is not on the mat.", "The cat wasn't on a mat."),
        ("It costs $3.50 (or 2,000 yen).", "That costs $3.50, or 2,000 yen.", "It costs $3.50."),
        ("A dog ran.", "The dog ran!", "One dog was running."),
        ("", "No.", ""),
        ("Yes, of course, my friend!", "Yes, of course, my friend!", "Of course!"),
    ],
    "de": [
        ("Der Hund läuft über die Straße.", "Ein Hund läuft über die Straße.", "Der Hund rennt."),
        ("Schöne Grüße aus Köln", "Schöne Grüße aus Köln!", "Grüße aus Köln"),
        ("„Ja“, sagte er.", "„Ja“, sagte sie.", "„Nein“, sagte er."),
        ("10 % der Äpfel", "10 % aller Äpfel", "zehn Prozent der Äpfel"),
    ],
    "zh": [
        ("我爱小猫。", "我爱猫。", "我喜欢小猫。"),
        ("他在2020年去了北京", "他2020年去了北京。", "在2020年他去过北京"),
        ("这本书很有意思!", "这本书非常有意思！", "这书有意思！"),
        ("你好，世界", "你好，世界", "世界，你好"),
    ],
}
CORPORA = {language: list(map(list, zip(*rows, strict=True))) for language, rows in ROWS.items()}
