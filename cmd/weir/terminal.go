package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"weir/console"
	"weir/internal/tabular"
)

// A terminal is where commands write, and ask.
type terminal struct {
	in       io.Reader
	inTTY    bool // in is a terminal
	out, err io.Writer
	colour   bool // on out
	outTTY   bool // out is a terminal
	errTTY   bool // err is a terminal
}

// newTerminal uses colour only on terminals (https://no-color.org).
func newTerminal(out, err *os.File) *terminal {
	return &terminal{
		in: os.Stdin, inTTY: term.IsTerminal(int(os.Stdin.Fd())),
		out: out, err: err,
		colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		outTTY: os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		errTTY: term.IsTerminal(int(err.Fd())),
	}
}

// An output keeps why something could not be written: commands print, and do not look at every error.
type output struct {
	io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.Writer.Write(text)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// unwritten returns why a part of what the command printed is lost, if it is.
func (t *terminal) unwritten() error {
	o, ok := t.out.(*output)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return fmt.Errorf("the output cannot be written: %w", o.err)
	}
	return nil
}

func (t *terminal) json(v any) error {
	e := json.NewEncoder(t.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (t *terminal) paint(c tabular.Tint, text string) string {
	return tabular.Ink(t.colour).Paint(c, text)
}

type cell struct {
	text  string
	tint  tabular.Tint
	right bool
}

func text(s string) cell { return cell{text: s} }
func number[T int | int64 | uint64](n T) cell {
	return cell{text: strconv.FormatInt(int64(n), 10), right: true}
}

type table struct {
	heads []string
	rows  [][]cell
}

func (b *table) row(cells ...cell) { b.rows = append(b.rows, cells) }

// write writes the table. Columns of numbers are aligned to the right.
func (t *terminal) write(b *table) {
	var aligned tabular.Table
	for i, h := range b.heads {
		aligned.Columns = append(aligned.Columns,
			tabular.Column{Head: strings.ToUpper(h), Right: len(b.rows) > 0 && b.rows[0][i].right})
	}
	for _, row := range b.rows {
		var cells []tabular.Cell
		for _, c := range row {
			cells = append(cells, tabular.Cell{Text: printable(c.text), Tint: c.tint})
		}
		aligned.Rows = append(aligned.Rows, cells)
	}
	for _, line := range aligned.Lines(0, tabular.Ink(t.colour)) {
		io.WriteString(t.out, line+"\n")
	}
}

// section writes a heading, and a table below it unless that is nil.
func (t *terminal) section(head string, b *table) {
	io.WriteString(t.out, "\n"+t.paint(tabular.Head, head)+"\n")
	if b != nil {
		t.write(b)
	}
}

// printable quotes control characters, which a terminal would obey: names come from clients.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}

// confirm asks the operator to confirm. Without a terminal it returns an error.
func (t *terminal) confirm(question string) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("there is no terminal to ask on (--yes does it without asking)")
	}
	fmt.Fprintf(t.err, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, 1024)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}

// read reads a password from the file, the terminal or standard input. It is never an argument: every user of the
// machine can read those.
func (c *passwordFlags) read(t *terminal, name string) (string, error) {
	switch {
	case c.PasswordFile != "":
		f, err := os.Open(c.PasswordFile)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return passwordIn(f)
	case term.IsTerminal(int(os.Stdin.Fd())):
		return t.askPassword(name)
	}
	return passwordIn(os.Stdin)
}

// passwordIn reads a password of one line. The end of the line is not part of it.
func passwordIn(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, console.MaxPassword+3))
	if err != nil {
		return "", err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case password == "":
		return "", errors.New("the password is empty")
	case strings.ContainsAny(password, "\r\n"):
		return "", errors.New("a password is one line")
	case len(password) > console.MaxPassword:
		return "", fmt.Errorf("a password has at most %d bytes", console.MaxPassword)
	}
	return password, nil
}

// askPassword asks for a password twice and does not show it.
func (t *terminal) askPassword(name string) (string, error) {
	first, err := t.hidden("new password of " + printable(name) + ": ")
	if err != nil {
		return "", err
	}
	if first, err = passwordIn(strings.NewReader(first)); err != nil {
		return "", err
	}
	again, err := t.hidden("once more: ")
	if err != nil {
		return "", err
	}
	if first != again {
		return "", errors.New("the two are not the same; nothing was changed")
	}
	return first, nil
}

// hidden asks for a line that is not shown while it is typed.
func (t *terminal) hidden(question string) (string, error) {
	in := int(os.Stdin.Fd())
	// Ctrl-C must not leave a terminal that shows nothing.
	before, err := term.GetState(in)
	if err != nil {
		return "", err
	}
	ctx, release := interruptible()
	defer release()
	defer context.AfterFunc(ctx, func() {
		term.Restore(in, before)
		fmt.Fprintln(t.err)
		os.Exit(exitFailed)
	})()
	fmt.Fprint(t.err, question)
	line, err := term.ReadPassword(in)
	fmt.Fprintln(t.err)
	return string(line), err
}
