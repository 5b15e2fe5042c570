# SPDX-License-Identifier: Apache-2.0
#
# Makes tokenizers of the common families with the `tokenizers` package (PyPI), encodes and decodes
# a multilingual fuzz corpus with it, and has TokenizerOracleTest compare. The corpus is seeded; the
# package's training orders ties at random, so that the tokenizers differ a little from run to run.
#
#   tokenizer_cases.py TEST_BINARY [--scale N] [--models FOLDER] [--keep FOLDER]
#
# Exit code 77 (skipped) if the package is missing.
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

try:
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                            pre_tokenizers, processors, trainers)
except ImportError as error:
    print(f"SKIP: {error}; `pip install tokenizers` gives the oracle for this test")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
            r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

SENTENCES = [
    "The quick brown fox jumps over the lazy dog. It's what they'll've said, isn't it?",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune",
    "def main(argv):\n    if len(argv) > 1:\n\t\treturn 0x1F\n    print(f\"{argv[0]!r}\")  # ok\r\n",
    "Größe, Übermut, naïve façade, coöperate; Ærøskøbing; İstanbul ıi; ǅ ß ẞ ſ K",
    "Быстрая коричневая лиса перепрыгивает через ленивую собаку. Ёж!",
    "Η γρήγορη αλεπού· ὀξεῖα βαρεῖα ᾳ ῷ", "מהיר שועל חום קופץ מעל כלב עצלן. שָׁלוֹם",
    "الثعلب البني السريع يقفز فوق الكلب الكسول. بِسْمِ اللَّه ١٢٣٤٥", "तेज़ भूरी लोमड़ी आलसी कुत्ते पर कूदती है १२३",
    "素早い茶色の狐が怠惰な犬を飛び越える。カタカナ・ひらがな ｶﾀｶﾅ", "敏捷的棕色狐狸跳过了懒狗。12345六七八", "빠른 갈색 여우가 게으른 개를 뛰어넘는다 한글",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ ๑๒๓", "👩‍👩‍👧‍👦 🇩🇪🇯🇵 👍🏽 ❤️ 🏳️‍🌈 😀😃 ☺︎ 1️⃣", "e\u0301 e\u0301\u0323 a\u030a A\u030a n\u0303 \u1e9b\u0323 ﬁ ﬀ ① ² Å Ⅷ ㌔ ﷺ",
    "x = 3.14159 + 1,234,567.89 - 0b1010; // 2^10 ≈ 10³ ½ ¾ ٣ ४",
    "https://example.org/a?b=c&d=%20#frag user@example.com C:\\path\\to\\file.txt",
    "<s>[INST] Hello [/INST]</s> <|endoftext|><|im_start|>user\n<|im_end|> <|end <unk> ▁ ▁▁x",
]
ODD = ["\u00a0", "\u2003", "\u3000", "\u200b", "\u200d", "\u200e", "\u2028", "\u0085", "\u180e", "\ufeff", "\ufffd",
       "\x00", "\x01", "\x1b", "\x1c", "\x7f", "\u0301", "\u0345", "\U0001F600", "\U0010FFFF", "\ue000", "\u0378", "\u212a", "\u017f",
       "▁", "Ġ", "Ċ", "'", "'S", "'lL", "'\u017f", "\t", "\r", "\n", "\r\n", " ", "  ", "        ", "\n\n\n", "\x0b", "\x0c",
       "<0x0A>", "<0xE2>", "</w>", "1", "22", "４", "٠", "²", "Ⅷ", "_", "‿", "Ａ", "-", "—", "…", "\"", "«", "€", "+", "^", "`"]


def noise(rng):
    """A character of Unicode 3.2: libraries and the package know later ones from different versions."""
    while True:
        c = chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x80, 0x2000), rng.randrange(0x3000, 0xD7FF))))
        if unicodedata.ucd_3_2_0.category(c) != "Cn":
            return c


def corpus(rng, count, marks):
    """`count` texts: plain ones, cut and mixed ones, and noise."""
    texts = ["", " ", "  ", "\n", "a", *SENTENCES, *ODD, *marks]
    texts += [f"a{m}b" for m in marks] + [f" {m} " for m in marks] + [m + m for m in marks]
    texts += [" " * n + "x" for n in (1, 2, 3, 17, 300)] + ["\n" * 50, "\t " * 40, "a" * 1000, "é" * 500, "ab" * 700]
    while len(texts) < count:
        parts = []
        for _ in range(rng.randrange(1, 9)):
            kind = rng.random()
            if kind < 0.45:
                s = rng.choice(SENTENCES)
                at = rng.randrange(len(s))
                parts.append(s[at:at + rng.randrange(1, 30)])
            elif kind < 0.75:
                parts.append(rng.choice(ODD) * rng.choice((1, 1, 1, 2, 5)))
            elif kind < 0.85 and marks:
                m = rng.choice(marks)
                parts.append(m if rng.random() < 0.7 else m[:rng.randrange(1, len(m) + 1)])
            elif kind < 0.93:
                parts.append("".join(noise(rng) for _ in range(rng.randrange(1, 8))))
            else:
                parts.append("".join(rng.choice("abAB 12'\n.") for _ in range(rng.randrange(1, 20))))
        texts.append("".join(parts))
    return texts


def train(tokenizer, size, special, alphabet, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  initial_alphabet=alphabet, **options)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return tokenizer


def byte_level(pre, size=900, normalizer=None, special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    return train(t, size, list(special), pre_tokenizers.ByteLevel.alphabet())


def split(*patterns):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama2(size=700, metaspace=None, byte_fallback=True, fuse=True):
    """Byte-fallback BPE; `metaspace` is a prepend scheme in place of the older normalizer."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=byte_fallback, fuse_unk=fuse))
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=metaspace, split=metaspace != "first")
        t.decoder = decoders.Metaspace(prepend_scheme=metaspace)
    else:
        t.normalizer = normalizer
    if not metaspace:
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    train(t, size, special, list("abcdefghijklmnopqrstuvwxyz▁"), limit_alphabet=60)
    # The byte tokens are plain vocabulary, and the rest is marked special as in released files.
    document = json.loads(t.to_str())
    document["added_tokens"] = [a for a in document["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(document))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def families():
    """name -> (tokenizer, text of tokenizer_config.json, added tokens to put into texts)"""
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    gpt2 = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2", gpt2, "", marks
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), size=500)
    t.post_processor = processors.RobertaProcessing(("<|im_end|>", 2), ("<|im_start|>", 1))
    yield "roberta", t, "", marks

    t = byte_level(split(LLAMA3), ignore_merges=True, special=("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B",
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    yield "llama3", t, json.dumps({"add_bos_token": False}), ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]

    t = byte_level(split(QWEN2), normalizer=normalizers.NFC())
    t.add_tokens([AddedToken("<tool_call>", normalized=False, special=False), AddedToken("<think>", normalized=False)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "qwen2", t, "", marks + ["<tool_call>", "<think>"]
    yield "o200k", byte_level(split(O200K)), "", marks
    yield "deepseek", byte_level(split(*DEEPSEEK)), "", marks

    yield "llama2", llama2(), "", ["<s>", "</s>", "<unk>"]
    t = Tokenizer.from_str(llama2().to_str())
    document = json.loads(t.to_str())
    for token in document["added_tokens"]:
        token["normalized"] = True
    yield "llama2-normalized", Tokenizer.from_str(json.dumps(document)), "", ["<s>", "</s>", "<unk>"]
    yield "metaspace-first", llama2(metaspace="first"), "", ["<s>", "</s>"]
    yield "metaspace-always", llama2(metaspace="always"), "", ["<s>", "</s>"]
    yield "metaspace-never", llama2(metaspace="never"), "", ["<s>", "</s>"]
    yield "unknown-fused", llama2(byte_fallback=False), "", ["<s>", "</s>"]
    yield "unknown-apart", llama2(byte_fallback=False, fuse=False), "", ["<s>", "</s>"]

    # Flags of added tokens, among them overlapping and nested ones.
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.Lowercase())
    odd = ["<MASK>", "<ls>", "<rs>", "<both>", "word", "<|im_start|>user", "Étoile", "  ", "日本"]
    t.add_tokens([AddedToken("<MASK>", lstrip=True, normalized=True), AddedToken("<ls>", lstrip=True),
                  AddedToken("<rs>", rstrip=True), AddedToken("<both>", lstrip=True, rstrip=True, single_word=True),
                  AddedToken("word", single_word=True), AddedToken("<|im_start|>user", normalized=False),
                  AddedToken("Étoile", normalized=True), AddedToken("  ", normalized=False), AddedToken("日本", single_word=True)])
    yield "added-flags", t, "", marks + odd + ["<mask>", "étoile", "a word b", "sword", "  <ls>  <rs>  <both>  "]

    # Normalizers, and a begin token that only tokenizer_config.json asks for.
    config = json.dumps({"add_bos_token": True, "add_eos_token": True, "bos_token": {"content": "<|im_start|>"},
                         "eos_token": "<|im_end|>"})
    for name, n in (("nfd", normalizers.NFD()), ("nfkc", normalizers.NFKC()), ("nfkd", normalizers.NFKD()),
                    ("accents", normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])),
                    ("strip", normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")]))):
        t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=n, size=600)
        yield "normal-" + name, t, config, marks

    # The other splits, with every behaviour.
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        pre = pre_tokenizers.Sequence([
            pre_tokenizers.Split(" ", behavior), pre_tokenizers.Split(Regex(r"[aeiou]+|\d"), behavior, invert=behavior == "removed"),
            pre_tokenizers.Punctuation(behavior), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        yield "split-" + behavior, byte_level(pre, size=500), "", marks
    for name, pre in (("whitespace", pre_tokenizers.Whitespace()), ("whitespace-split", pre_tokenizers.WhitespaceSplit()),
                      ("digits", pre_tokenizers.Digits(individual_digits=True)), ("digit-runs", pre_tokenizers.Digits()),
                      ("regex", pre_tokenizers.Split(Regex(r"\s+$|\p{N}{1,2}+|\h{2}|[\w'-]+|\S|^ +"), "isolated"))):
        yield name, byte_level(pre_tokenizers.Sequence([pre, pre_tokenizers.ByteLevel(use_regex=False)]), size=500), "", marks

    # Subword marks, and no decoder at all.
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    yield "word-suffix", train(t, 500, ["<unk>"], list("abc"), end_of_word_suffix="</w>"), "", ["<unk>"]
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    yield "subword-prefix", train(t, 500, ["<unk>"], list("abc"), continuing_subword_prefix="##"), "", ["<unk>"]

    # Merges written "a b", as older files have them.
    document = json.loads(gpt2.to_str())
    document["model"]["merges"] = [" ".join(m) for m in document["model"]["merges"]]
    yield "merges-as-text", Tokenizer.from_str(json.dumps(document)), "", marks, json.dumps(document)


def expectations(tokenizer, config, marks, count, rng):
    config = json.loads(config or "{}")
    begin = end = []
    if tokenizer.post_processor is None or type(tokenizer.post_processor).__name__ == "ByteLevel":
        name = lambda key: config[key] if isinstance(config[key], str) else config[key]["content"]
        begin = [tokenizer.token_to_id(name("bos_token"))] if config.get("add_bos_token") else []
        end = [tokenizer.token_to_id(name("eos_token"))] if config.get("add_eos_token") else []

    # From 0.23 on the package decodes an added token to its normalized text and then no longer knows
    # it as special; llmc does what the versions before did, so such decodings are left out.
    changed = {i for i, t in tokenizer.get_added_tokens_decoder().items() if tokenizer.id_to_token(i) != t.content}

    def one(text, ids, special):
        if changed & set(special):
            return {"text": text, "ids": ids, "ids_special": special} if text is not None else {"ids_special": []}
        case = {"ids_special": special, "decoded": tokenizer.decode(special, skip_special_tokens=False),
                "decoded_skip": tokenizer.decode(special, skip_special_tokens=True)}
        return case if text is None else {"text": text, "ids": ids, **case}

    for text in corpus(rng, count, marks):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        yield one(text, ids, begin + tokenizer.encode(text, add_special_tokens=True).ids + end)
    highest = max(tokenizer.get_vocab().values())
    for _ in range(count // 3):
        yield one(None, None, [rng.randrange(highest + 3) for _ in range(rng.randrange(0, 12))])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--scale", type=int, default=400, help="texts per tokenizer")
    parser.add_argument("--models", help="a folder whose */tokenizer.json are compared as well")
    parser.add_argument("--keep", help="write the cases here and leave them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)

        def write(name, tokenizer, config, marks, source=None):
            rng = random.Random(name)
            cases = list(expectations(tokenizer, config, marks, options.scale, rng))
            (folder / f"{name}.json").write_text(json.dumps(
                {"tokenizer": source or tokenizer.to_str(), "config": config, "cases": cases}))

        for family in families():
            write(*family)
        seen = set()
        for path in sorted(pathlib.Path(options.models).glob("*/tokenizer.json")) if options.models else ():
            source = path.read_text()
            document = json.loads(source)
            if source in seen or document["model"].get("type") != "BPE":
                continue
            seen.add(source)
            tokenizer = Tokenizer.from_str(source)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            write("model-" + path.parent.name, tokenizer, "", [t["content"] for t in document["added_tokens"]], source)
        environment = {**os.environ, "LLMC_TOKENIZER_CASES": str(folder)}
        return subprocess.run([options.binary, "--gtest_filter=TokenizerOracle.*"], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
