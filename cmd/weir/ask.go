package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"weir/console"
)

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
