package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"key": "s3cret\n", "crlf": "s3cret\r\n", "two": "a\n\n",
		"full": strings.Repeat("x", MaxSecret), "over": strings.Repeat("x", MaxSecret+1)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("WEIR_TEST_A", "alpha")
	t.Setenv("WEIR_TEST_EMPTY", "")
	for _, c := range []struct{ text, want, err string }{
		{"plain $ text {}", "plain $ text {}", ""},
		{"${env:WEIR_TEST_A}", "alpha", ""},
		{"<${env:WEIR_TEST_A}|${env:WEIR_TEST_A}>", "<alpha|alpha>", ""},
		{"${env:WEIR_TEST_EMPTY}", "", ""},
		{"$${env:WEIR_TEST_A}", "${env:WEIR_TEST_A}", ""},
		{"$$${env:WEIR_TEST_A}", "$${env:WEIR_TEST_A}", ""},
		{"${file:key}", "s3cret", ""},
		{"${file:" + filepath.Join(folder, "crlf") + "}", "s3cret", ""},
		{"${file:two}", "a\n", ""},
		{"${file:full}", strings.Repeat("x", MaxSecret), ""},
		{"${file:full}${file:key}", "", "more than 64 KiB"},
		{"${file:over}", "", "over is larger than 64 KiB"},
		{"${file:none}", "", "none cannot be read: no such file"},
		{"${file:.}", "", ". is not a file"},
		{"${file:/dev/null}", "", "is not a file"},
		{"${env:WEIR_TEST_UNSET}", "", "WEIR_TEST_UNSET is not set"},
		{"${env:}", "", "is not a reference"},
		{"${HOME}", "", "is not a reference"},
		{"${env:HOME", "", "never closed"},
	} {
		s := secrets{folder: folder}
		got, found, err := s.expand(c.text)
		switch {
		case c.err == "" && (err != nil || got != c.want || found != (len(s.known) > 0)):
			t.Errorf("%s: %q, %v, %v", c.text, got, found, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Msg, c.err)):
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestReferencesTogetherAreBounded(t *testing.T) {
	t.Setenv("WEIR_TEST_BIG", strings.Repeat("x", MaxSecret))
	s := secrets{}
	for i := range maxSecrets / MaxSecret {
		if _, _, err := s.expand("${env:WEIR_TEST_BIG}"); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, _, err := s.expand("${env:WEIR_TEST_BIG}"); err == nil {
		t.Error("one more was let in")
	}
}

func TestHide(t *testing.T) {
	s := secrets{known: []secret{{"${env:A}", "open sesame\"now"}, {"${env:B}", "7"}}}
	for _, c := range []struct {
		msg  string
		own  bool
		want string
	}{
		{`open sesame"now is wrong`, false, "${env:A} is wrong"},
		{`"open sesame\"now" is wrong`, true, `"${env:A}" is wrong`},
		{`port "sesame" is wrong`, true, "the value of the reference is not valid here"},
		{"7 has no unit", true, "the value of the reference is not valid here"},
		{"7 policies are too many", false, "7 policies are too many"},
	} {
		e := &Error{Msg: c.msg}
		if s.hide(e, c.own); e.Msg != c.want {
			t.Errorf("%s: %s", c.msg, e.Msg)
		}
	}
}
