#!/usr/bin/env python3
"""bad_inputs.py BIN PACKAGES: what is no model and what is no package gives one clear line and exit code 1; nothing crashes."""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import models

BIN, PACKAGES = sys.argv[1:3]
FOLDER = models.model_folder("wordmoe")
WORDMOE = models.package(PACKAGES, "wordmoe")


def tool(name, *args, env=None):
    return subprocess.run([os.path.join(BIN, name), *args], capture_output=True, text=True, check=False, env=env)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, data=None):
        path = os.path.join(self.folder, name)
        if data is not None:
            with open(path, "wb") as f:
                f.write(data)
        return path

    def refused(self, done, *words):
        """One line on standard error that holds all words, exit code 1, nothing on standard output."""
        self.assertEqual(done.returncode, 1, (done.returncode, done.stdout, done.stderr))
        lines = [line for line in done.stderr.strip().split("\n") if "error" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word.lower(), lines[0].lower())
        self.assertEqual(done.stdout, "")

    def compile(self, path):
        return tool("sluicec", path, "-o", self.path("out.sluice"))

    def test_truncated_model(self):
        with open(os.path.join(FOLDER, "model.onnx"), "rb") as f:
            data = f.read(5_000_000)
        self.refused(self.compile(self.path("model.onnx", data)), "model.onnx")
        self.assertFalse(os.path.exists(self.path("out.sluice")))

    def test_other_file_types(self):
        for name, data in (("model.onnx", b"PK\x03\x04" + bytes(100)), ("a.onnx", b'{"a": 1}'), ("b.onnx", b"GGUF" + bytes(60)), ("c.onnx", b"")):
            self.refused(self.compile(self.path(name, data)), name)

    def test_no_such_file_and_no_model_in_folder(self):
        self.refused(self.compile(self.path("none.onnx")), "none.onnx")
        self.refused(self.compile(self.folder), "no .onnx file")

    def test_unwritable_output(self):
        done = tool("sluicec", FOLDER, "-o", os.path.join(self.folder, "no", "such", "folder", "x.sluice"))
        self.refused(done, "x.sluice")

    def test_bad_flags(self):
        for args in (("--weights=f8",), ("--target=cpu:z80",), ("--disable-pass=pack-tokens",), ("--disable-pass=no-such-pass",)):
            done = tool("sluicec", FOLDER, "-o", self.path("x.sluice"), *args)
            self.assertEqual(done.returncode, 1, (args, done.stderr))
            self.assertIn(args[0].split("=")[1].removeprefix("cpu:"), done.stderr)

    def test_output_is_never_the_model(self):
        own = os.path.join(self.folder, "model.onnx")
        shutil.copy(os.path.join(FOLDER, "model.onnx"), own)
        self.refused(tool("sluicec", own, "-o", own), "is the model itself")
        self.assertEqual(os.path.getsize(own), os.path.getsize(os.path.join(FOLDER, "model.onnx")))

    def test_lost_output_and_endless_input(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([os.path.join(BIN, "sluice"), "inspect", WORDMOE], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)
        self.refused(tool("sluice", "run", WORDMOE, "-f", "/dev/zero"), "/dev/zero", "MiB")
        self.refused(tool("sluice", "run", WORDMOE, "-f", self.folder), self.folder)

    def damaged(self, change):
        with open(WORDMOE, "rb") as f:
            data = bytearray(f.read())
        changed = change(data)
        data = data if changed is None else changed
        return tool("sluice", "inspect", self.path("bad.sluice", bytes(data)))

    def test_truncated_package(self):
        with open(WORDMOE, "rb") as f:
            size = len(f.read())
        for keep in (0, 10, 63, 64, 1000, size // 2, size - 1):
            self.refused(self.damaged(lambda d, keep=keep: d[:keep]), "bad.sluice")

    def test_flipped_byte_in_each_section(self):
        # Header, manifest, then a byte of each section; offsets come from the file itself, not from our reader.
        with open(WORDMOE, "rb") as f:
            data = f.read()
        manifest_offset, manifest_bytes = struct.unpack_from("<QQ", data, 24)
        places = {8: "", 20: "", manifest_offset + manifest_bytes // 2: "manifest"}
        page = 4096
        for at in range(0, len(data) - page, max(page, len(data) // 40 // page * page)):
            if any(data[at : at + page]):
                places.setdefault(at + 17, "")
        for at, word in places.items():
            def flip(d, at=at):
                d[at] ^= 0x40
            done = self.damaged(flip)
            self.refused(done, "bad.sluice", word)

    def test_newer_package(self):
        def newer(d):
            struct.pack_into("<I", d, 8, 99)
        self.refused(self.damaged(newer), "99", "newer")

    def test_missing_cpu_feature(self):
        env = dict(os.environ, SLUICE_MASK_CPU_FEATURES="avx2,avx512f,fma")
        done = tool("sluice", "run", WORDMOE, "-p", "x", env=env)
        self.refused(done, "avx2" if "avx2" in done.stderr else "avx512f")

    def test_no_tokenizer_ids_still_work(self):
        bare = os.path.join(self.folder, "bare")
        os.makedirs(bare)
        for name in ("model.onnx", "config.json"):
            os.symlink(os.path.join(FOLDER, name), os.path.join(bare, name))
        package = self.path("bare.sluice")
        done = tool("sluicec", os.path.join(bare, "model.onnx"), "-o", package)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(tool("sluice", "run", package, "-p", "hello"), "tokenizer")
        out = self.path("l.safetensors")
        self.assertEqual(tool("sluice", "logits", package, "--ids", "1,2,3", "-o", out).returncode, 0)

    def test_bad_requests(self):
        self.refused(tool("sluice", "logits", WORDMOE, "--ids", "5,99999", "-o", self.path("x")), "99999")
        self.refused(tool("sluice", "logits", WORDMOE, "--ids", "5,x", "-o", self.path("x")), "x")
        self.refused(tool("sluice", "logits", WORDMOE, "--ids", "", "-o", self.path("x")), "")
        self.refused(tool("sluice", "run", WORDMOE, "-p", "x", "--temperature", "-1"), "temperature")
        self.refused(tool("sluice", "run", WORDMOE, "-p", "x", "--top-p", "2"), "top")
        self.refused(tool("sluice", "eval", WORDMOE, "--golden", self.path("no.safetensors")), "no.safetensors")
        self.refused(tool("sluice", "eval", WORDMOE, "--golden", self.path("cut.safetensors", b"\xff" * 20)), "cut.safetensors")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
