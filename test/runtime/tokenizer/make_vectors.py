#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the tokenizer test data: small tokenizers trained here (data/*.json), vectors.json, the ids that the Python
package `tokenizers` gives for a list of hard texts, and pieces.json, how its pre-tokenizers cut. Run once, when a case is added:
    python test/runtime/tokenizer/make_vectors.py --fixtures ../shared/fixtures
(needs the packages tokenizers 0.23 and, for the tokenizer of the example model, examples/models/wordmoe)."""
import argparse
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog doesn't mind; it's asleep, they'll say.",
    "What is biology? Biology is the study of life and of living things: the cell, the plant, the animal.",
    "In 1905, 1915 and 2024 the numbers 12345 and 67890 were written 1,000 times.",
    "def main():\n    for i in range(10):\n        print(i)\n\n\treturn 0\n",
    "你好，世界。今天天气很好，我们去公园玩。学习语言是一件有趣的事情。你好，世界。",
    "こんにちは、世界。今日はとても良い天気です。日本語を勉強しています。こんにちは。",
    "مرحبا بالعالم. هذا نص قصير باللغة العربية. مرحبا بالعالم.",
    "नमस्ते दुनिया। यह हिन्दी में एक छोटा पाठ है। नमस्ते दुनिया।",
    "안녕하세요 세계. 오늘은 날씨가 좋습니다. 안녕하세요 세계.",
    "Привет, мир. Это короткий текст на русском языке. Γειά σου Κόσμε. Größe, naïve café, Ελλάδα.",
    "👋🌍 👨‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 ❤️ 👍🏽 emoji emoji",
] * 4

TEXTS = [
    "",
    " ",
    "  ",
    "\n",
    "a",
    "What is biology?",
    "The quick  brown   fox\tjumps\t\tover",
    "I'm you're HE'LL they'd We've it's 'tis O'Neil's DON'T '",
    "def f(x):\n    if x:\n\n\n        return x  \n   \n\r\n\r\r\n\t end",
    "trailing spaces   ",
    "   leading spaces",
    "7 42 123 1234 12345 3.14159 1,000,000 ١٢٣ ४५६ ½ Ⅷ ²",
    "你好，世界。今天天气很好！学习",
    "日本語のテキスト、カタカナ・ひらがな。",
    "مرحبا بالعالم، كيف حالك؟ الْعَرَبِيَّة",
    "नमस्ते दुनिया, आप कैसे हैं? क्षत्रिय",
    "안녕하세요 세계, 한국어 텍스트",
    "Привет, мир! Ελλάδα Größe STRASSE ſ İstanbul",
    "👨‍👩‍👧‍👦 family 👍🏽🏳️‍🌈🇫🇷❤️ end",
    "e\u0301 \u00e9 n\u0303 \u00f1 A\u030a \u212b \ufb01 \uac00 \u1100\u1161",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d algo \u0301 alone",
    "\u00a0nbsp\u3000ideographic\u2003em\u200bzero\u180emvs\u0085nel\u2028ls\ufeffbom",
    "\x00\x01\x1c\x1f\x7f control",
    "\ufffd\ufffe\U0010ffff \ud7ff\ue000 \U000e0041 \U0001f9ff\U00020000",
    "a_b-c+d=e*f/g\\h|i~j`k^l@m#n$o%p&q",
    "!!!???...---***((([[[{{{\n\n}}}",
    "don\u2019t \u201cquote\u201d \u00abguillemets\u00bb \u2014 dash\u2026",
    "https://example.com/a?b=c&d=%20#frag user@example.org",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    " \n \n\n  \t \r\n x",
    "<|endoftext|>",
    "Hello<|im_start|>user\nhi<|im_end|>\n<|im_end|><|im_end|> <|im_start|>",
    "<|endoftext|<|endoftext|>|> <bos>text<eos> <pad>",
    "x  [L]  y  [R]  z [B] [W] a[W]b _[W] ([W]) [L][R]  [B] \u3000[L]\u2003[R]\u00a0end",
    "c\u1ea1ftok ca\u0323ftok CAFTOK lo longest longest-one <long> <longer> <longe",
    "the the The THE  the's the\nthe123the",
    "İi\u0307 ŉ ʼn 'ſ 'S \u212a",
]

# (text index -> options) beyond the default of special tokens added and parsed.
PLAIN = [0, 5, 30, 31, 32, 33]
NO_SPECIAL = [0, 5, 31]


def train(pre, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  min_frequency=2)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def flagged(content, **flags):
    return AddedToken(content, **{"normalized": False, **flags})


FLAG_TOKENS = [
    flagged("[L]", lstrip=True), flagged("[R]", rstrip=True), flagged("[B]", lstrip=True, rstrip=True),
    flagged("[W]", single_word=True), flagged("c\u1ea1ftok", normalized=True), flagged("longest"),
    flagged("longest-one", normalized=True), flagged("<long>"), flagged("<longer>"), flagged("  ", normalized=True),
]


def make_gpt2():
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False), 640)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.add_tokens(FLAG_TOKENS)
    data = json.loads(tokenizer.to_str())
    # The older spelling of merges and of empty affixes.
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    data["model"]["continuing_subword_prefix"] = data["model"]["end_of_word_suffix"] = ""
    return data


def split_then_bytes(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make_llama3():
    tokenizer = train(split_then_bytes(LLAMA3), 700)
    tokenizer.add_special_tokens(["<|begin|>", "<|endoftext|>"])
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin|> $A <|endoftext|>", pair="<|begin|> $A $B", special_tokens=[
            ("<|begin|>", begin), ("<|endoftext|>", begin + 1)])])
    data = json.loads(tokenizer.to_str())
    data["model"]["ignore_merges"] = True
    # A word that no merge makes: only ignore_merges finds it.
    vocab = data["model"]["vocab"]
    for token in data["added_tokens"]:
        token["id"] += 1
    for spec in data["post_processor"]["processors"][1]["special_tokens"].values():
        spec["ids"] = [i + 1 for i in spec["ids"]]
    assert "\u0120family" not in vocab
    vocab["\u0120family"] = len(vocab)
    return data


def make_qwen2():
    tokenizer = train(split_then_bytes(QWEN2), 640)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([flagged("<|endoftext|>"), flagged("<|im_start|>"), flagged("<|im_end|>")])
    tokenizer.add_tokens(FLAG_TOKENS)
    return json.loads(tokenizer.to_str())


def make_mixed():
    """Rare constructs: other split behaviours, Digits, a space in front, NFKC, an unknown token."""
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=True), 400)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("e", "merged_with_next"), pre_tokenizers.Split(Regex(r"\w+|\b"), "contiguous", invert=True),
        pre_tokenizers.Split(Regex(r"[\s\d.-]"), "merged_with_previous"), pre_tokenizers.Split(Regex(r"\h{3}|^x$|#*"), "removed"),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=True)])
    tokenizer.add_tokens([flagged("THE", single_word=True, normalized=True)])
    data = json.loads(tokenizer.to_str())
    model = data["model"]
    removed = {"\u00e6", "\u0120"}  # byte 0xE6 (Chinese) and the space become unknown
    model["merges"] = [p for p in model["merges"] if not any(c in "".join(p) for c in removed)]
    kept = [t for t in model["vocab"] if not any(c in t for c in removed)] + ["<unk>"]
    model["vocab"] = {t: i for i, t in enumerate(kept)}
    model["unk_token"] = "<unk>"
    model["fuse_unk"] = True
    for token in data["added_tokens"]:
        token["id"] = len(kept)
    return data


def vectors(tokenizer):
    cases = []
    for index, text in enumerate(TEXTS):
        options = [(True, True)]
        options += [(True, False)] if index in PLAIN else []
        options += [(False, True)] if index in NO_SPECIAL else []
        for add, parse in options:
            tokenizer.encode_special_tokens = not parse
            ids = tokenizer.encode(text, add_special_tokens=add).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            skipped = tokenizer.decode(ids, skip_special_tokens=True)
            cases.append([index, int(add), int(parse), ids, None if decoded == text else decoded,
                          None if skipped == decoded else skipped])
    return cases


# (pattern, behaviours) of Split steps, and texts to cut; what they give is in pieces.json.
SPLITS = [
    ({"Regex": r"\w+"}, "all"), ({"Regex": r"\b"}, "all"), ({"Regex": r"\d"}, "all"), ({"Regex": r"[\s-]"}, "all"), ({"String": "e"}, "all"),
    ({"String": ".*"}, "isolated"), ({"Regex": r"\p{Han}+|\p{^L}"}, "isolated"), ({"Regex": r"[^\s\d-]{,2}"}, "isolated"), ({"Regex": r"\h+\H"}, "isolated"),
    ({"Regex": r"(?i)S|k"}, "isolated"), ({"Regex": r"^x$"}, "isolated"), ({"Regex": r"."}, "isolated"), ({"Regex": r"\W\B|\A.|(?<=t).\z"}, "isolated"),
    ({"Regex": r"[\w-]+?\u0041|a++b|(?>\S\S)"}, "isolated"), ({"Regex": r"\x41|\x{4f60}|[\]{}]|{|\v|\t"}, "isolated"), ({"Regex": r"[]x]|[a-]|[^-\S]"}, "isolated"), ({"Regex": LLAMA3}, "isolated"),
    ({"Regex": r"\p{Han}+"}, "isolated"),
]
CUT_TEXTS = ["The test-case 12 34\n x\nx\n e\u0301e ee", "\u4f60\u597d\u3001, AAA ab aab {x} ]\u00a0\u180e\u3000-a- \u0967\u0968 \u00bd \u2167 \u24b6 \u203f_", "e", "Sk\u017f\u212a \x0b\t .* deadBEEF9 t."]


def piece_vectors():
    cases = []
    steps = []
    for pattern, behaviors in SPLITS:
        names = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"] if behaviors == "all" else [behaviors]
        for behavior in names:
            for invert in (False, True) if behaviors == "all" else (False,):
                value = Regex(pattern["Regex"]) if "Regex" in pattern else pattern["String"]
                steps.append(pre_tokenizers.Split(value, behavior, invert))
    steps += [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Digits(individual_digits=False),
              pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Digits(True), pre_tokenizers.Split(Regex("[ex]"), "contiguous")])]
    for step in steps:
        cases.append([json.loads(step.__getstate__()), [[piece for piece, _ in step.pre_tokenize_str(text)] for text in CUT_TEXTS]])
    return {"texts": CUT_TEXTS, "cases": cases}


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixtures", default=str(ROOT.parent / "shared" / "fixtures"))
    args = parser.parse_args()
    (HERE / "data").mkdir(exist_ok=True)
    result = {"texts": TEXTS, "tokenizers": []}
    for name, data in (("gpt2", make_gpt2()), ("llama3", make_llama3()), ("qwen2", make_qwen2()), ("mixed", make_mixed())):
        text = dump(data)
        (HERE / "data" / f"{name}.json").write_text(text)
        result["tokenizers"].append({"root": "repository", "file": f"test/runtime/tokenizer/data/{name}.json",
                                     "cases": vectors(Tokenizer.from_str(text))})
    for root, base, file in (("repository", ROOT, "examples/models/wordmoe/tokenizer.json"),
                             ("fixtures", pathlib.Path(args.fixtures), "golden/tokenizer.json")):
        result["tokenizers"].append({"root": root, "file": file, "cases": vectors(Tokenizer.from_file(str(base / file)))})
    (HERE / "vectors.json").write_text(dump(result))
    (HERE / "pieces.json").write_text(dump(piece_vectors()))


if __name__ == "__main__":
    main()
