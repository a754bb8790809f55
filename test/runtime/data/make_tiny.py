#!/usr/bin/env python3
"""Makes tiny.sluice, the package with which the runtime is tested where no compiler is built: make_tiny.py SLUICEC OUT.sluice.

One layer, vocabulary 32, hidden 16, 2 query heads and 1 key-value head of 8, window 4, 4 experts of 16 with 2 active. Weights
come from a fixed linear congruential generator and some serve twice (each takes a page), so that the file stays below 100 kB.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

V, H, HEADS, KV, D, E, I, WINDOW = 32, 16, 2, 1, 8, 4, 16, 4
STATE = [12345]


def values(count, scale):
    out = []
    for _ in range(count):
        STATE[0] = (STATE[0] * 1103515245 + 12345) % 2**31
        out.append((STATE[0] / 2**30 - 1) * scale)
    return out


def weight(name, *shape, scale=0.4, offset=0.0):
    count = 1
    for d in shape:
        count *= d
    data = struct.pack(f"<{count}f", *(offset + v for v in values(count, scale))).hex().upper()
    kind = "x".join(map(str, shape)) + "xf32"
    return f'%{name} = lm.weight "{name}" = dense<"0x{data}"> : tensor<{kind}> : tensor<{kind}>'


def t(*shape, e="f32"):
    return "tensor<" + "x".join(map(str, shape)) + f"x{e}>"


def module():
    x, kv, cache = t("?", "?", H), t("?", "?", KV * D), t("?", KV, "?", D)
    angle, ids, choice = t("?", "?", D // 2), t("?", "?", e="i64"), t("?", "?", 2)
    chosen, inner = t("?", "?", 2, e="i32"), t("?", "?", 2, I)
    args = (f'%ids: {ids} {{lm.role = "token_ids"}}, %mask: {ids} {{lm.role = "attention_mask"}}, %positions: {ids} {{lm.role = "position_ids"}}, '
            f'%pk: {cache} {{lm.layer = 0 : i64, lm.role = "past_key"}}, %pv: {cache} {{lm.layer = 0 : i64, lm.role = "past_value"}}')
    results = (f'{t("?", "?", V)} {{lm.role = "logits"}}, {cache} {{lm.layer = 0 : i64, lm.role = "present_key"}}, '
               f'{cache} {{lm.layer = 0 : i64, lm.role = "present_value"}}')
    lines = [
        weight("embed", V, H, scale=1.0), weight("q", H, H), weight("k", KV * D, H), 
        weight("router", E, H, scale=1.0), weight("gate", E, I, H), weight("up", E, I, H), weight("down", E, H, I),
        weight("head", V, H, scale=1.0), weight("n", H, scale=0.1, offset=1.0),
        f"%cos, %sin = lm.rope_table %positions {{frequencies = array<f64: 1.0, 0.1, 0.01, 0.001>, scale = 1.0 : f64}} : ({ids}) -> ({angle}, {angle})",
        f"%x = lm.embedding %embed, %ids : ({t(V, H)}, {ids}) -> {x}",
        f"%a = lm.rms_norm %x, %n {{epsilon = 1.0e-5 : f64}} : ({x}, {t(H)}) -> {x}",
        f"%qh = lm.linear %a, %q : ({x}, {t(H, H)}) -> {x}",
        f"%kh = lm.linear %a, %k : ({x}, {t(KV * D, H)}) -> {kv}",
        f"%vh = lm.linear %a, %k : ({x}, {t(KV * D, H)}) -> {kv}",
        f"%qr = lm.rope %qh, %cos, %sin {{heads = {HEADS} : i64}} : ({x}, {angle}, {angle}) -> {x}",
        f"%kr = lm.rope %kh, %cos, %sin {{heads = {KV} : i64}} : ({kv}, {angle}, {angle}) -> {kv}",
        f"%keys = lm.padded_append %pk, %kr : ({cache}, {kv}) -> {cache}",
        f"%vals = lm.padded_append %pv, %vh : ({cache}, {kv}) -> {cache}",
        f"%att = lm.padded_attention %qr, %keys, %vals mask(%mask) {{heads = {HEADS} : i64, kv_heads = {KV} : i64, mask_window = {WINDOW} : i64, "
        f"scale = 0.35 : f64}} : ({x}, {cache}, {cache}, {ids}) -> {x}",
        f"%oh = lm.linear %att, %q : ({x}, {t(H, H)}) -> {x}",
        f"%r1 = arith.addf %x, %oh : {x}",
        f"%b = lm.rms_norm %r1, %n {{epsilon = 1.0e-5 : f64}} : ({x}, {t(H)}) -> {x}",
        f"%rl = lm.linear %b, %router : ({x}, {t(E, H)}) -> {t('?', '?', E)}",
        f"%w, %e = lm.route %rl {{normalize, score = #lm<score softmax_all>, top_k = 2 : i64}} : ({t('?', '?', E)}) -> ({choice}, {chosen})",
        f'lm.probe "router_ids" 0, %e : {chosen}',
        f"%g = lm.grouped_linear %b, %e, %gate : ({x}, {chosen}, {t(E, I, H)}) -> {inner}",
        f"%u = lm.grouped_linear %b, %e, %up : ({x}, {chosen}, {t(E, I, H)}) -> {inner}",
        f"%h = lm.gated_activation %g, %u <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64> : ({inner}, {inner}) -> {inner}",
        f"%d = lm.grouped_linear %h, %e, %down : ({inner}, {chosen}, {t(E, H, I)}) -> {t('?', '?', 2, H)}",
        f"%y = lm.combine %d, %w : ({t('?', '?', 2, H)}, {choice}) -> {x}",
        f"%r2 = arith.addf %r1, %y : {x}",
        f"%f = lm.rms_norm %r2, %n {{epsilon = 1.0e-5 : f64}} : ({x}, {t(H)}) -> {x}",
        f"%logits = lm.linear %f, %head : ({x}, {t(V, H)}) -> {t('?', '?', V)}",
        f"return %logits, %keys, %vals : {t('?', '?', V)}, {cache}, {cache}",
    ]
    facts = f"lm.model = {{context = 64 : i64, hidden = {H} : i64, layers = 1 : i64, vocab = {V} : i64}}, onnx.file = \"tiny\""
    return f"module attributes {{{facts}}} {{\n func.func @main({args}) -> ({results}) {{\n  " + "\n  ".join(lines) + "\n }\n}\n"


def main():
    sluicec, out = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tiny.mlir"), "w", encoding="utf-8") as f:
            f.write(module())
        command = [sluicec, "tiny.mlir", "-o", "tiny.sluice", "--target=cpu:x86-64-v3"]
        code = subprocess.run(command, cwd=folder, check=False).returncode
        if code == 0:
            shutil.copy(os.path.join(folder, "tiny.sluice"), out)
        return code


if __name__ == "__main__":
    sys.exit(main())
