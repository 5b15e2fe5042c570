# SPDX-License-Identifier: Apache-2.0
#
# Why this file exists: llmc needs a language model that it can ship, whose
# text, training and licence are beyond doubt. This script makes that model
# from nothing: it takes Jane Austen's six novels from Debian's package
# r-cran-janeaustenr, trains a byte-level BPE tokenizer and a small GPT-2 on
# them, and has stock optimum-onnx export the result. It is used only for
# making the model, never for building or testing llmc. README.md beside it
# tells what came out and how to run it.

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
EOT = "<|endoftext|>"
VOCAB = 2048
CONTEXT = 256
PASSAGE = 400   # a passage is closed at the first paragraph end past so many characters
PROMPTS = [
    "It was a very fine evening, and",
    "Elizabeth was much surprised by",
    '"My dear Miss Woodhouse," said',
    "Captain Wentworth had",
    "She could not help",
    "The next morning",
    "Fanny was",
    "Mr. Darcy, with",
    "It is a truth universally acknowledged, that",
    "Mrs. Dashwood and her daughters",
    "They were",
]


# ------------------------------------------------------------------- text
def export_text(folder):
    """One text file per novel, as the R package holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    code = ("library(janeaustenr); b <- austen_books();"
            "for (n in levels(b$book)) writeLines(enc2utf8(b$text[b$book == n]),"
            'file.path(commandArgs(TRUE)[1], paste0(gsub("[^A-Za-z]", "", n), ".txt")), useBytes = TRUE)')
    subprocess.run(["Rscript", "-e", code, str(folder)], check=True)


HEADING = re.compile(r"^\s*(CHAPTER|VOLUME)\s+[0-9IVXLC]+\.?\s*$", re.I)
DROP = re.compile(r"^(THE END|FINIS|END OF VOLUME .*|[* ]+|\[.*\])$", re.I)


def chapters(text):
    """The chapters of a novel, each a list of paragraphs without line breaks.

    What stands before the first heading (title, publisher's note) and after
    the last page (notes on the edition) is not taken.
    """
    out, lines, started = [], [], False

    def close():
        paragraphs = []
        for block in re.split(r"\n\s*\n", "\n".join(lines)):
            p = " ".join(block.replace("_", "").split())
            if p and not DROP.match(p):
                paragraphs.append(p)
        if paragraphs:
            out.append(paragraphs)
        lines.clear()

    for line in text.splitlines():
        if HEADING.match(line):
            if started:
                close()
            started = True
        elif line.strip() == "A NOTE ON THE TEXT":
            break
        elif started:
            lines.append(line)
    close()
    return out


def passages(paragraphs):
    """Paragraphs in a row, joined by newlines to passages of PASSAGE characters and more."""
    out, cur = [], ""
    for p in paragraphs:
        cur = cur + "\n" + p if cur else p
        if len(cur) >= PASSAGE:
            out.append(cur)
            cur = ""
    if cur:
        out.append(cur)
    return out


def corpus(work):
    """(training passages, validation passages): every 20th chapter is held out whole."""
    raw = work / "raw"
    if not raw.is_dir():
        export_text(raw)
    every = [c for f in sorted(raw.glob("*.txt")) for c in chapters(f.read_text("utf-8"))]
    train, val = [], []
    for i, c in enumerate(every):
        (val if i % 20 == 10 else train).extend(passages(c))
    return train, val, len(every)


def make_data(work):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    train, val, count = corpus(work)
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=[EOT], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(train, trainer)
    assert tok.get_vocab_size() == VOCAB and tok.token_to_id(EOT) == 0
    tok.save(str(work / "bpe.json"))

    info = {"chapters": count}
    for name, part in (("train", train), ("val", val)):
        ids = [0]
        for e in tok.encode_batch(part):
            ids += e.ids + [0]
        for text, e in zip(part[:50], tok.encode_batch(part[:50])):
            assert tok.decode(e.ids) == text
        np.save(work / f"{name}.npy", np.array(ids, np.int64))
        # an <|endoftext|> counts as one byte, the line break it stands for
        info[name] = {"passages": len(part), "tokens": len(ids),
                      "bytes": sum(len(t.encode()) + 1 for t in part)}
    (work / "data.json").write_text(json.dumps(info, indent=1))
    print(json.dumps(info))


# ------------------------------------------------------------------ model
def new_model(a):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(a.seed)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=a.n_embd, n_layer=a.n_layer, n_head=a.n_head,
        resid_pdrop=a.dropout, embd_pdrop=a.dropout, attn_pdrop=0.0, initializer_range=0.06,
        bos_token_id=0, eos_token_id=0, tie_word_embeddings=True))
    if a.init:
        model.load_state_dict(torch.load(a.init, weights_only=False)["model"])
        with torch.no_grad():
            for block in model.transformer.h:   # queries and keys begin again
                block.attn.c_attn.weight[:, :2 * a.n_embd].normal_(0, 0.06)
                block.attn.c_attn.bias[:2 * a.n_embd].zero_()
    # The learned positions start as sine waves. From random ones the heads have to learn "the token
    # before this one" anew for each position, and so short a training ends before they have.
    rate = 1e4 ** (-torch.arange(0, a.n_embd, 2) / a.n_embd)
    angle = torch.arange(CONTEXT)[:, None] * rate
    with torch.no_grad():
        model.transformer.wpe.weight.copy_(0.06 * torch.cat([angle.sin(), angle.cos()], 1))
    return model


def quick_gelu(model):
    """gelu_new is written out in elementary operations; torch has the same function in one."""
    for block in model.transformer.h:
        block.mlp.act = torch.nn.GELU(approximate="tanh")


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made near orthogonal, for the matrices inside the blocks.

    With the few steps that a CPU can do, AdamW alone stays for long at what
    the preceding token tells; this gets the heads to attend much sooner.
    The method is Keller Jordan's (2024); torch has it too, but in bfloat16.
    """

    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @staticmethod
    def orthogonal(g):
        wide = g if g.shape[0] <= g.shape[1] else g.T
        x = wide / (wide.norm() + 1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        return x if wide is g else x.T

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(m, group["momentum"])
                # Conv1D holds (in, out); queries, keys and values side by side are three matrices
                parts = g.split(g.shape[0], 1) if g.shape[1] == 3 * g.shape[0] else [g]
                update = torch.cat([self.orthogonal(x) * max(1, x.shape[1] / x.shape[0]) ** 0.5 for x in parts], 1)
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])


@torch.no_grad()
def validate(model, val):
    """Mean loss in nats per token over the held-out text, in windows that do not overlap."""
    model.eval()
    total, n = 0.0, len(val) - 1
    full = n // CONTEXT
    x = val[:full * CONTEXT].view(full, CONTEXT)
    y = val[1:full * CONTEXT + 1].view(full, CONTEXT)
    for i in range(0, full, 32):
        logits = model(input_ids=x[i:i + 32], use_cache=False).logits
        total += F.cross_entropy(logits.flatten(0, 1), y[i:i + 32].flatten(), reduction="sum").item()
    if n > full * CONTEXT:
        logits = model(input_ids=val[full * CONTEXT:-1][None], use_cache=False).logits
        total += F.cross_entropy(logits[0], val[full * CONTEXT + 1:], reduction="sum").item()
    model.train()
    return total / n


def batches(data, size, seed, start):
    """Endless batches from step `start`: each epoch cuts the text at a new offset and shuffles the windows."""
    step, epoch = 0, 0
    while True:
        g = np.random.default_rng([seed, epoch])
        first = int(g.integers(CONTEXT))
        order = first + CONTEXT * g.permutation((len(data) - 1 - first) // CONTEXT)
        for i in range(0, len(order) - size + 1, size):
            if step >= start:
                w = torch.stack([data[o:o + CONTEXT + 1] for o in order[i:i + size]])
                yield epoch, w[:, :-1], w[:, 1:]
            step += 1
        epoch += 1


def train(a):
    work = a.work
    if not (work / "data.json").exists():
        make_data(work)
    data, val = (torch.from_numpy(np.load(work / f"{n}.npy")) for n in ("train", "val"))
    model = new_model(a)
    quick_gelu(model)
    params = sum(p.numel() for p in model.parameters())
    inner = [p for n, p in model.named_parameters() if p.dim() == 2 and ".h." in n]
    embed = [p for n, p in model.named_parameters() if p.dim() == 2 and ".h." not in n]
    rest = [p for p in model.parameters() if p.dim() < 2]
    opts = [torch.optim.AdamW([{"params": embed, "weight_decay": a.weight_decay}, {"params": rest, "weight_decay": 0.0}],
                              lr=a.lr, betas=(0.9, 0.95), eps=1e-8, fused=True),
            Muon(inner, lr=a.muon_lr, weight_decay=a.weight_decay)]
    peak = [a.lr, a.muon_lr]
    step, best, spent, log = 0, math.inf, 0.0, []
    last = work / "last.pt"
    if last.exists():
        c = torch.load(last, weights_only=False)
        model.load_state_dict(c["model"])
        for o, state in zip(opts, c["opts"]):
            o.load_state_dict(state)
        step, best, spent, log = c["step"], c["best"], c["spent"], c["log"]
        torch.set_rng_state(c["rng"])
        print("resumed at step", step)
    print(f"{params} parameters, {len(data)} training tokens, {len(val)} validation tokens", flush=True)

    def save(path, obj):
        torch.save(obj, str(path) + ".tmp")
        os.replace(str(path) + ".tmp", path)

    model.train()
    began, spent_before, mean, quiet = time.time(), spent, None, time.time()
    for epoch, x, y in batches(data, a.batch, a.seed, step):
        spent = spent_before + time.time() - began
        # With --minutes the schedule also follows the clock, so that it ends in time on a busy machine.
        done = max(step / a.steps, spent / (60 * a.minutes) if a.minutes else 0.0)
        if done >= 1:
            break
        scale = min(1.0, (step + 1) / a.warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        for o, lr in zip(opts, peak):
            for group in o.param_groups:
                group["lr"] = lr * scale
        logits = model(input_ids=x, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in opts:
            o.step()
        step += 1
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 20 == 0:
            print(f"step {step} epoch {epoch} loss {mean:.4f} scale {scale:.3f} {spent:.0f} s", flush=True)
        if step % a.every == 0:
            best = checkpoint(work, model, opts, val, step, best, spent, log, epoch, mean, save)
    best = checkpoint(work, model, opts, val, step, best, spent, log, epoch, mean, save)
    print("best validation loss", best)


def checkpoint(work, model, opts, val, step, best, spent, log, epoch, mean, save):
    if log and log[-1]["step"] == step:
        return best
    v = validate(model, val)
    log.append({"step": step, "epoch": epoch, "train": mean, "val": v, "seconds": round(spent)})
    print(f"== step {step} validation {v:.4f}", flush=True)
    if v < best:
        best = v
        save(work / "best.pt", {"model": model.state_dict(), "step": step, "val": v, "epoch": epoch})
    save(work / "last.pt", {"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "step": step, "best": best,
                            "spent": spent, "log": log, "rng": torch.get_rng_state()})
    (work / "log.json").write_text(json.dumps(log, indent=0))
    return best


# ----------------------------------------------------------------- export
def load_best(a):
    model = new_model(a)
    c = torch.load(a.work / "best.pt", weights_only=False)
    model.load_state_dict(c["model"])
    return model.eval().requires_grad_(False), c


def forward(model, ids, past=None):
    """(logits, presents) of eager PyTorch for ids that follow the cache `past`."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for i, (k, v) in enumerate(past or []):
        cache.update(k, v, i)
    at = cache.get_seq_length()
    b, s = ids.shape
    mask = torch.ones(b, at + s, dtype=torch.int64)
    pos = torch.arange(at, at + s).expand(b, s).contiguous()
    out = model(input_ids=ids, attention_mask=mask, position_ids=pos, past_key_values=cache, use_cache=True,
                cache_position=torch.arange(at, at + s))
    return out.logits, [(l.keys, l.values) for l in out.past_key_values.layers], mask, pos


def write_case(model, path, ids, at):
    """ids (batch, at + sequence): the first `at` make the cache, the rest are the case."""
    past = forward(model, ids[:, :at])[1] if at else None
    logits, present, mask, pos = forward(model, ids[:, at:], past)
    if past is None:
        past = [(k[:, :, :0], v[:, :, :0]) for k, v in present]
    arrays = {"in:input_ids": ids[:, at:], "in:attention_mask": mask, "in:position_ids": pos, "out:logits": logits}
    for i in range(len(present)):
        for j, name in enumerate(("key", "value")):
            arrays[f"in:past_key_values.{i}.{name}"] = past[i][j]
            arrays[f"out:present.{i}.{name}"] = present[i][j]
    np.savez_compressed(path, **{k: np.ascontiguousarray(v.numpy()) for k, v in arrays.items()})


def greedy(model, ids, n):
    out, past, margin, x = [], None, math.inf, torch.tensor([ids])
    for _ in range(n):
        logits, past, _, _ = forward(model, x, past)
        top = logits[0, -1].topk(2)
        margin = min(margin, float(top.values[0] - top.values[1]))
        out.append(int(top.indices[0]))
        x = torch.tensor([[out[-1]]])
    return out, margin


def tokenizer_of(work):
    from transformers import GPT2TokenizerFast

    # one tokenizer.json is all that is needed; the slow tokenizer's files are derived from it
    return GPT2TokenizerFast(tokenizer_file=str(work / "bpe.json"), unk_token=EOT, bos_token=EOT, eos_token=EOT,
                             add_prefix_space=False, model_max_length=CONTEXT)


def export(a):
    """Write model.onnx, the configuration, the tokenizer, expected.json and the cases into a.out."""
    from optimum.exporters.onnx import main_export
    from transformers import GenerationConfig

    model, best = load_best(a)
    tok = tokenizer_of(a.work)
    tmp = Path(tempfile.mkdtemp(dir=a.work))
    hf, new = tmp / "hf", tmp / "onnx"
    model.generation_config = GenerationConfig(do_sample=True, temperature=0.8, top_k=40, top_p=0.95, max_length=CONTEXT,
                                               bos_token_id=0, eos_token_id=0, pad_token_id=0)
    model.save_pretrained(hf)
    tok.save_pretrained(hf)
    main_export(str(hf), output=new, task="text-generation-with-past", opset=a.opset, device="cpu", do_validation=True)

    # The prompts whose continuation hangs least on rounding: where two ids
    # nearly tie, another order of summation may rightly choose the other.
    tried = []
    for text in PROMPTS:
        ids = tok(text)["input_ids"]
        tried.append((*greedy(model, ids, 32), text, ids))
    cases = []
    for out, margin, text, ids in sorted(tried, key=lambda t: -t[1])[:3]:
        # the same without a cache, so that the oracle has been told twice
        seq = list(ids)
        for t in out:
            assert int(model(input_ids=torch.tensor([seq]), use_cache=False).logits[0, -1].argmax()) == t
            seq.append(t)
        cases.append({"prompt": text, "prompt_ids": ids, "ids": out, "text": tok.decode(out), "min_margin": round(margin, 5)})
    (new / "expected.json").write_text(json.dumps({"reference": "PyTorch, float32, greedy", "eos_token_id": 0, "cases": cases}, indent=1) + "\n")

    text = [0] + tok("It is a truth universally acknowledged, that a single man in possession of a good fortune")["input_ids"]
    write_case(model, new / "case_0.npz", torch.tensor([text[:7]]), 0)
    write_case(model, new / "case_1.npz", torch.tensor([text[:8], text[6:14]]), 5)

    check_onnx(new, cases)
    a.out.mkdir(parents=True, exist_ok=True)
    for f in sorted(new.iterdir()):
        shutil.copy(f, a.out / (f.name + ".new"))
    for f in sorted(new.iterdir()):
        os.replace(a.out / (f.name + ".new"), a.out / f.name)
    shutil.rmtree(tmp)
    print(f"exported step {best['step']}, validation loss {best['val']:.4f}")


def check_onnx(folder, cases):
    """onnxruntime must agree with PyTorch on the cases and the greedy continuations."""
    import onnxruntime as ort

    s = ort.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [o.name for o in s.get_outputs()]
    for f in sorted(folder.glob("case_*.npz")):
        z = np.load(f)
        got = dict(zip(names, s.run(None, {i.name: z["in:" + i.name] for i in s.get_inputs()})))
        diff = max(float(np.abs(got[k] - z["out:" + k]).max()) for k in names)
        print(f"{f.name}: onnxruntime differs by at most {diff:.2e}")
        assert diff < 1e-3
    heads, dim = next((i.shape[1], i.shape[3]) for i in s.get_inputs() if i.name.startswith("past"))
    for c in cases:
        past = {i.name: np.zeros((1, heads, 0, dim), np.float32) for i in s.get_inputs() if i.name.startswith("past")}
        x, at, out = np.array([c["prompt_ids"]]), 0, []
        for _ in range(len(c["ids"])):
            n = x.shape[1]
            r = dict(zip(names, s.run(None, {"input_ids": x, "attention_mask": np.ones((1, at + n), np.int64),
                                             "position_ids": np.arange(at, at + n)[None], **past})))
            past = {k: r[k.replace("past_key_values", "present")] for k in past}
            out.append(int(r["logits"][0, -1].argmax()))
            x, at = np.array([[out[-1]]]), at + n
        assert out == c["ids"], (out, c["ids"])
    print("onnxruntime gives the greedy continuations of PyTorch")


def sample(a):
    model, _ = load_best(a)
    tok = tokenizer_of(a.work)
    torch.manual_seed(a.seed)
    for p in [a.prompt] if a.prompt is not None else [""] + PROMPTS[:3]:
        ids = torch.tensor([[0] + tok(p)["input_ids"]])
        out = model.generate(ids, do_sample=True, temperature=0.8, top_k=40, top_p=0.95, max_length=CONTEXT,
                             pad_token_id=0, attention_mask=torch.ones_like(ids))
        print(f"--- {p!r}, {out.shape[1]} tokens\n" + tok.decode(out[0], skip_special_tokens=True) + "\n")


def main():
    p = argparse.ArgumentParser(description="Make the Austen model: text, tokenizer, training, export.")
    p.add_argument("stage", choices=["data", "train", "export", "sample", "all"])
    p.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "llmc-austen", help="text, checkpoints, log")
    p.add_argument("--out", type=Path, default=HERE, help="where export writes the model")
    p.add_argument("--seed", type=int, default=1811)
    p.add_argument("--init", type=Path, help="a best.pt whose weights, but for positions, queries and keys, to start from")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--n-embd", type=int, default=256)
    p.add_argument("--n-layer", type=int, default=4)
    p.add_argument("--n-head", type=int, default=4)
    p.add_argument("--dropout", type=float, default=0.05)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--steps", type=int, default=4000)
    p.add_argument("--minutes", type=float, default=0, help="end the schedule after so many minutes of training, if before --steps")
    p.add_argument("--lr", type=float, default=2e-3, help="AdamW's, for embeddings, norms and biases")
    p.add_argument("--muon-lr", type=float, default=0.02, help="Muon's, for the matrices of the blocks")
    p.add_argument("--warmup", type=int, default=50)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--every", type=int, default=100, help="steps between validations and checkpoints")
    p.add_argument("--opset", type=int, default=18)
    p.add_argument("--prompt")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    a.work.mkdir(parents=True, exist_ok=True)
    if a.stage in ("data", "all"):
        make_data(a.work)
    if a.stage in ("train", "all"):
        train(a)
    if a.stage in ("export", "all"):
        export(a)
    if a.stage == "sample":
        sample(a)


if __name__ == "__main__":
    main()
