package main

import (
	"os"
	"strings"
	"testing"
)

const sample = `package sample

const most = 10

func (l *list) add(n int, err error) error {
	if n >= most && !l.open {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count += n
	l.tell(n)
	l.full = true
	return nil
}
`

// TestBreed: all mutants of a small file.
func TestBreed(t *testing.T) {
	all, err := breed("sample.go", []byte(sample), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := `- number: const most = 11
add condition: if !(n >= most && !l.open) {
add guard: if false && (n >= most && !l.open) {
add operator: if n >= most || !l.open {
add operator: if n > most && !l.open {
add negation: if n >= most && l.open {
add error: return nil
add operator: l.count -= n
add assignment: if false { l.count += n }
add call: if false { l.tell(n) }
add assignment: if false { l.full = true }
add truth: l.full = false
`
	var got strings.Builder
	for _, m := range all {
		got.WriteString(m.function + " " + m.kind + ": " + m.after + "\n")
		if lines := strings.Split(string(m.source), "\n"); strings.TrimSpace(lines[m.line-1]) != m.after {
			t.Errorf("%s is not in the file", m.after)
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

// TestChoice: kinds take turns, and a line that is added elsewhere changes nothing about who is chosen.
func TestChoice(t *testing.T) {
	names := func(source string, seed uint64) (text string) {
		all, err := breed("sample.go", []byte(source), seed)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]bool{}
		for _, m := range choose(all, 5) {
			text += m.id() + "\n"
			kinds[m.kind] = true
		}
		if len(kinds) != 5 {
			t.Errorf("seed %d: %d kinds among 5", seed, len(kinds))
		}
		return text
	}
	different := map[string]bool{}
	for seed := range uint64(20) {
		plain := names(sample, seed)
		different[plain] = true
		if moved := names(strings.Replace(sample, "const", "var unused string\n\nconst", 1), seed); moved != plain {
			t.Errorf("seed %d: an empty line changed\n%sto\n%s", seed, plain, moved)
		}
	}
	if len(different) < 10 {
		t.Errorf("20 seeds choose %d times differently", len(different))
	}
}

// TestBeside: the tests beside a file are found, and a file without tests has none.
func TestBeside(t *testing.T) {
	t.Chdir("../..")
	if all := beside("internal/mutants/mutate.go"); len(all) != 1 ||
		all[0][1] != "^(TestBreed|TestChoice|TestBeside|TestExplained)$" || all[0][2] != "./internal/mutants" {
		t.Errorf("%q", all)
	}
	if all := beside("internal/mutants/doc.go"); all != nil {
		t.Errorf("%q", all)
	}
}

// TestExplained: every survivor that is explained is a mutant that can be made, and has a reason.
func TestExplained(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("internal/mutants/explained.txt")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, target := range targets {
		all, err := target.mutants(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			there[m.id()] = true
		}
	}
	for id, why := range explanations(string(text)) {
		if !there[id] {
			t.Errorf("no longer there: %s", id)
		}
		if why == "" {
			t.Errorf("without a reason: %s", id)
		}
	}
}
