"""What `./dev lint` prints beside its verdict: lines by room, and how comments and sentences are written."""

import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (".cpp", ".h", ".cuh", ".cu", ".def", ".inc", ".js", ".py")
LATE_SUBJECT = re.compile(r"(Of|What|Where|Whether)\b")
LONG_SENTENCE = 40


def comments_of(text: str) -> list:
    """Neighbouring lines that begin with // are one; so is what stands behind code."""
    blocks = re.findall(r"(?:^[ \t]*//[^\n]*\n)+|(?<=\S)[ \t]+// [^\n]*\n", text, re.M)
    return [" ".join(re.sub(r"^[ \t]*//+", "", block, flags=re.M).split()) for block in blocks]


def long_sentences_of(text: str) -> int:
    return sum(len(sentence.split()) > LONG_SENTENCE for sentence in re.split(r"[.!?]\)?\s+", text))


def prose_of(page: str) -> list:
    """Paragraphs, and cells of tables, without blocks of code."""
    page = re.sub(r"^```.*?^```|^ {4}.*?$", "", page, flags=re.M | re.S)
    return re.split(r"\n\s*\n|\n(?=[-#|])|\|", page)


lines, comments = collections.Counter(), []
for top in ("compiler", "runtime", "templates", "oracle", "tests"):
    for path in (ROOT / top).rglob("*"):
        if path.suffix not in SOURCES:
            continue
        parts = path.relative_to(ROOT).parts
        text = path.read_text()
        lines[top, parts[1] if len(parts) > 2 else "."] += text.count("\n")
        if top != "tests":
            comments += comments_of(text)

for top in dict.fromkeys(top for top, _ in lines):
    rooms = sorted(((count, room) for (of, room), count in lines.items() if of == top), reverse=True)
    total = sum(count for count, _ in rooms)
    print(f"lines: {top} {total:,}: " + ", ".join(f"{room} {count:,}" for count, room in rooms))
late = sum(bool(LATE_SUBJECT.match(comment)) for comment in comments)
print(f"comments: {late:,} of {len(comments):,} begin with Of, What, Where or Whether ({late / len(comments):.1%})")
pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
in_docs = sum(map(long_sentences_of, (text for page in pages for text in prose_of(page.read_text()))))
print(f"sentences of over {LONG_SENTENCE} words: {sum(map(long_sentences_of, comments))} in comments, {in_docs} in docs")
