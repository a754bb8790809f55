#!/usr/bin/env python3
"""Writes a BF16 GGUF of the shapes in a config.json (architecture with experts, grouped-query attention), with random weights.

  make_peer_gguf.py CONFIG.json OUT.gguf

llama.cpp's speed depends on shapes, not on values, so this stands beside a model that exists as ONNX alone. Needs the
packages numpy and gguf.
"""
import json
import sys

import gguf
import numpy as np


def main():
    config = json.load(open(sys.argv[1], encoding="utf-8"))
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads, kv_heads, vocab = config["num_attention_heads"], config["num_key_value_heads"], config["vocab_size"]
    head = config.get("head_dim") or hidden // heads
    experts, used = config["num_local_experts"], config["num_experts_per_tok"]
    writer = gguf.GGUFWriter(sys.argv[2], "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(vocab)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(used)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("no_vocab")
    random = np.random.default_rng(1)

    def matrix(name, *shape):
        values = (random.standard_normal(shape, dtype=np.float32) * 0.05).view(np.uint32)
        writer.add_tensor(name, (values >> 16).astype(np.uint16).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)

    def norm(name):
        writer.add_tensor(name, np.ones(hidden, np.float32))

    matrix("token_embd.weight", vocab, hidden)
    for i in range(layers):
        p = f"blk.{i}."
        norm(p + "attn_norm.weight")
        matrix(p + "attn_q.weight", heads * head, hidden)
        matrix(p + "attn_k.weight", kv_heads * head, hidden)
        matrix(p + "attn_v.weight", kv_heads * head, hidden)
        matrix(p + "attn_output.weight", hidden, heads * head)
        norm(p + "ffn_norm.weight")
        writer.add_tensor(p + "ffn_gate_inp.weight", random.standard_normal((experts, hidden), dtype=np.float32))
        matrix(p + "ffn_gate_exps.weight", experts, inner, hidden)
        matrix(p + "ffn_up_exps.weight", experts, inner, hidden)
        matrix(p + "ffn_down_exps.weight", experts, hidden, inner)
    norm("output_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    sys.exit(main())
