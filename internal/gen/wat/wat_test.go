package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCurrent: the modules in the repository are those that their texts make.
func TestCurrent(t *testing.T) {
	for _, name := range []string{"../../../throttle/stamp/eqs60"} {
		out := filepath.Join(t.TempDir(), "out.wasm")
		if err := run([]string{name + ".wat", out}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.wasm is not what its text makes: run go generate ./throttle/stamp", name)
		}
	}
}

// TestBytes: a small program is assembled as the specification says, byte by byte.
func TestBytes(t *testing.T) {
	got, err := assemble(`(module ;; a comment
  (memory (export "m") 1 1)
  (func $f (export "f") (param $a i32) (result i32)
    (local $b i32) (local $c i64)
    (block $out
      (loop $again
        (br_if $out (i32.eqz (local.get $a)))
        (i64.store offset=200 (local.get $b) (i64.const -65))
        (if (local.get $a) (then (br $again)))))
    (call $g (local.tee $b (i32.const 64))))
  (func $g (param $a i32) (result i32) (local.get $a)))`)
	if err != nil {
		t.Fatal(err)
	}
	want := "\x00asm\x01\x00\x00\x00" +
		"\x01\x06\x01\x60\x01\x7f\x01\x7f" + // one type
		"\x03\x03\x02\x00\x00" + // two functions of it
		"\x05\x04\x01\x01\x01\x01" + // a page of memory, and no more
		"\x07\x09\x02\x01m\x02\x00\x01f\x00\x00" +
		"\x0a\x2f\x02" +
		"\x28\x02\x01\x7f\x01\x7e" + // the locals
		"\x02\x40\x03\x40" + "\x20\x00\x45\x0d\x01" +
		"\x20\x01\x42\xbf\x7f\x37\x03\xc8\x01" +
		"\x20\x00\x04\x40\x0c\x01\x0b" + "\x0b\x0b" +
		"\x41\xc0\x00\x22\x01\x10\x01\x0b" +
		"\x04\x00\x20\x00\x0b"
	if string(got) != want {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

// TestMistakes: what is not understood is told with its line.
func TestMistakes(t *testing.T) {
	body := func(s string) string { return "(module\n(func $f (param $a i32)\n" + s + "))" }
	for text, want := range map[string]string{
		"":                                       "1: a bracket is missing",
		"(module":                                "1: a bracket is missing",
		"(module))":                              "1: something follows the module",
		"(program)":                              "1: not a module",
		"(module (table))":                       `1: "table" is not known`,
		"(module (memory 1))":                    "1: write one (memory",
		`(module (memory (export "m") 1 99999))`: `1: "99999" is not a number of pages`,
		"(module (func))":                        "1: a function needs a name",
		"(module (func $f) (func $f))":           "1: a function needs a name of its own",
		"(module (func $f (param i32)))":         "1: write (param $name i32)",
		"(module (func $f (param $a f32)))":      "1: write (param $name i32)",
		"(module (func $f (param $a i32) (local $a i32)))": "1: $a is there already",
		body("(nonsense)"):                         `3: "nonsense" is not an instruction`,
		body("(nonsense 1)"):                       `3: "nonsense" is not an instruction`,
		body("(i32.add (local.get $a))"):           "3: i32.add takes 2 operands",
		body("(local.get $b)"):                     "3: no local $b",
		body("(call $g)"):                          "3: no function $g",
		body("(call $f)"):                          "3: call takes 1 operands",
		body("(br $x)"):                            "3: no label $x",
		body("(loop (br $x))"):                     "3: a loop needs a label",
		body("(if (local.get $a) (local.get $a))"): "3: write (if condition",
		body("(i32.const 4294967296)"):             `3: "4294967296" is not a number for i32.const`,
		body("(i32.load offset=x (local.get $a))"): `3: "x" is not an offset`,
		strings.Repeat("(", maxDepth+2):            "nested too deep",
		strings.Repeat("(", maxDepth) + strings.Repeat(")", maxDepth): "not a module",
	} {
		if _, err := assemble(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := run(nil); err == nil {
		t.Error("no arguments")
	}
	if err := run([]string{"none.wat", "out"}); err == nil {
		t.Error("no file")
	}
}

// FuzzAssemble: no text ends the assembler.
func FuzzAssemble(f *testing.F) {
	text, err := os.ReadFile("../../../throttle/stamp/eqs60.wat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("(module (func $f (param) (if (then))))")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = assemble(text) })
}
