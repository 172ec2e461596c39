package smtpgate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// cutting gives a text in pieces of a size.
type cutting struct {
	text string
	size int
}

func (c *cutting) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size)], c.text)
	c.text = c.text[n:]
	return n, nil
}

// lines reads all lines of a text that comes in pieces, and what they end with.
func lines(text string, size, most int) (all []string, err error) {
	w := newWire(&cutting{text, size})
	for {
		line, err := w.line(most)
		if err != nil {
			return all, err
		}
		all = append(all, string(line))
	}
}

// TestLines: a line ends with CR LF and nothing else, and has a bound.
func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 5*readSize)
	for text, want := range map[string]struct {
		lines string
		err   error
	}{
		"":                             {"", io.EOF},
		"EHLO x\r\nQUIT\r\n":           {"EHLO x|QUIT|", io.EOF},
		"\r\n\r\n":                     {"||", io.EOF},
		"a\r\nb":                       {"a|", io.EOF},
		"a\r\nb\n":                     {"a|", errBareLine},
		"a\rb\r\n":                     {"", errBareLine},
		"\ra\r\n":                      {"", errBareLine},
		"a\r\r\n":                      {"", errBareLine},
		"\n":                           {"", errBareLine},
		long + "\r\n":                  {long + "|", io.EOF},
		"x\r\n" + long + "aaaa\r\ny":   {"x|" + long + "aaaa|", io.EOF},
		"x\r\n" + long + "aaaaa\r\n":   {"x|", errLongLine},
		"x\r\n" + long + long + "\r\n": {"x|", errLongLine},
	} {
		for _, size := range []int{1, 2, 3, 100, 1 << 20} {
			got, err := lines(text, size, len(long)+6)
			if !errors.Is(err, want.err) || strings.Join(got, "|")+strings.Repeat("|", min(len(got), 1)) != want.lines {
				t.Errorf("%.20q by %d: %.20q, %v", text, size, got, err)
			}
		}
	}
	w := newWire(iotest.ErrReader(io.ErrClosedPipe))
	if _, err := w.line(1000); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// dotted reads a text that comes in pieces, and what stands behind it.
func dotted(text string, size int) (got, rest string, err error) {
	w := newWire(&cutting{text, size})
	var b bytes.Buffer
	err = w.text(func(p []byte) { b.Write(p) })
	if err == nil {
		left, _ := io.ReadAll(w.src)
		rest = string(w.buf[w.r:w.w]) + string(left)
	}
	return b.String(), rest, err
}

// TestDots: one dot is taken from the beginning of each line, and CR LF . CR LF is the one end of a text.
func TestDots(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		".\r\nQUIT\r\n":             {"", "QUIT\r\n"},
		"a\r\n.\r\nb":               {"a\r\n", "b"},
		"a\r\n..\r\n.\r\n":          {"a\r\n.\r\n", ""},
		"..a\r\n.b\r\n...\r\n.\r\n": {".a\r\nb\r\n..\r\n", ""},
		"a\n.\nb\r\n.\r\nc":         {"a\n.\nb\r\n", "c"},
		"a\n.\r\nb\r\n.\r\nc":       {"a\n.\r\nb\r\n", "c"},
		"a\r\n.\nb\r\n.\r\nc":       {"a\r\n\nb\r\n", "c"},
		"a\r.\rb\r\n.\r\nc":         {"a\r.\rb\r\n", "c"},
		"a\r\n.\rb\r\n.\r\nc":       {"a\r\n\rb\r\n", "c"},
		"a\r\n.\r\r\n.\r\nc":        {"a\r\n\r\r\n", "c"},
		"a\r\n.\r.\r\n.\r\nc":       {"a\r\n\r.\r\n", "c"},
		"a\r\r\n.\r\nc":             {"a\r\r\n", "c"},
		"\r\n.\r\nc":                {"\r\n", "c"},
		"\n.\r\n\r\n.\r\nc":         {"\n.\r\n\r\n", "c"},
		".\n.\r\n\r\n.\r\nc":        {"\n.\r\n\r\n", "c"},
		strings.Repeat("..\r\n", 9000) + ".\r\nNOOP\r\n": {strings.Repeat(".\r\n", 9000), "NOOP\r\n"},
		"a\r\n.\r\n" + strings.Repeat("NOOP\r\n", 9000):  {"a\r\n", strings.Repeat("NOOP\r\n", 9000)},
	} {
		for _, size := range []int{1, 2, 3, 5, 1000, 1 << 20} {
			if got, rest, err := dotted(text, size); err != nil || got != want[0] || rest != want[1] {
				t.Errorf("%.40q by %d: %.40q and %.40q, %v", text, size, got, rest, err)
			}
		}
	}
	for _, text := range []string{"", ".", ".\r", "a\r\n.\r", "a\n.\n", "a\r\n.\r\r\n"} {
		if _, _, err := dotted(text, 1); err != io.EOF {
			t.Errorf("%q ends: %v", text, err)
		}
	}
}

// undotted is what DATA means, in the simplest words: lines end with CR LF, a dot alone ends the text.
func undotted(text string) (got, rest string, ended bool) {
	for begins := true; text != ""; {
		if begins {
			if after, ok := strings.CutPrefix(text, ".\r\n"); ok {
				return got, after, true
			}
			text = strings.TrimPrefix(text, ".")
		}
		i := strings.Index(text, "\r\n")
		if i < 0 {
			return got + text, "", false
		}
		got, text, begins = got+text[:i+2], text[i+2:], true
	}
	return got, "", false
}

// FuzzWire: however it is cut, a client's text is read the same way, and what stands behind it is still there.
func FuzzWire(f *testing.F) {
	for _, seed := range []string{"a\r\n.\r\nQUIT\r\n", "..\r\n.\r\r\n.\r\n", ".\r\n", "\n.\n\r\n.\r\nx", "a\rb\r\n",
		"EHLO x\r\nMAIL FROM:<>\r\n", strings.Repeat("a", 1500)} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(size, 1)
		got, rest, err := dotted(text, size)
		want, behind, ended := undotted(text)
		if (err == nil) != ended || ended && (got != want || rest != behind) {
			t.Errorf("%q by %d: %q and %q, %v; want %q and %q, %v", text, size, got, rest, err, want, behind, ended)
		}
		all, err := lines(text, size, 1000)
		whole, werr := lines(text, 1<<20, 1000)
		if strings.Join(all, "\n") != strings.Join(whole, "\n") || !errors.Is(err, werr) {
			t.Errorf("%q by %d: %q, %v; want %q, %v", text, size, all, err, whole, werr)
		}
		for _, line := range all {
			if strings.ContainsAny(line, "\r\n") || len(line) > 998 {
				t.Errorf("%q is a line", line)
			}
		}
		if joined := strings.Join(all, "\r\n"); !strings.HasPrefix(text, joined) {
			t.Errorf("%q are lines of %q", all, text)
		}
	})
}
