package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxTries is how often a question is asked.
const maxTries = 10

// What ends the questions.
var (
	errNoAnswer = errors.New("the input ended before all questions were answered; nothing was written")
	errTries    = fmt.Errorf("%d answers to one question were wrong; nothing was written", maxTries)
)

// askStarter asks for everything that the flags do not say.
func (t *terminal) askStarter(c *initCommand, usual string) (s starter, answers map[string]string, err error) {
	in := bufio.NewReaderSize(t.in, maxAnswer+2) // an answer and the end of its line
	fmt.Fprintln(t.err, "What is weir for?")
	for i, s := range starters() {
		fmt.Fprintf(t.err, "  %d  %-8s %s\n", i+1, s.kind, s.title)
	}
	given := c.flags()
	if err := t.question(in, "Which one, by name or number?", "api", func(kind string) (err error) {
		s, err = starterOf(kind)
		return err
	}); err != nil {
		return s, nil, err
	}
	if err := s.knows(given); err != nil {
		return s, nil, err
	}
	s.common(usual)
	taken := map[string]string{"cert": given["cert"], "key": given["key"]}
	for _, a := range s.asks {
		take := func(value string) error { return s.try(taken, a.flag, value, c.Force) }
		if value, ok := given[a.flag]; ok {
			if err := take(value); err != nil {
				return s, nil, fmt.Errorf("--%s: %w", a.flag, err)
			}
			continue
		}
		if a.quiet || a.needs != "" && isNone(s.fill(taken)[a.needs]) {
			continue
		}
		usual := a.usual
		if usual != "" {
			usual = s.fill(taken)[a.flag]
		}
		if err := t.question(in, a.question, usual, take); err != nil {
			return s, nil, err
		}
	}
	return s, s.fill(taken), nil
}

// question asks until an answer is taken. An empty one is the usual one.
func (t *terminal) question(in *bufio.Reader, question, usual string, take func(string) error) error {
	for range maxTries {
		fmt.Fprint(t.err, question)
		if usual != "" {
			fmt.Fprintf(t.err, " [%s]", printable(usual))
		}
		fmt.Fprint(t.err, " ")
		answer, err := readAnswer(in)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(t.err)
			return errNoAnswer
		case err != nil && !errors.Is(err, errLongAnswer):
			return err
		case err != nil:
		case answer == "" && usual == "":
			err = errors.New("this needs an answer")
		case answer == "":
			err = take(usual)
		default:
			err = take(answer)
		}
		if err == nil {
			return nil
		}
		fmt.Fprintf(t.err, "  %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  "))
	}
	return errTries
}

// readAnswer reads a line. Of a line that is too long, the rest is skipped.
func readAnswer(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		line, err = in.ReadSlice('\n')
	}
	answer := strings.TrimSpace(string(line))
	switch {
	case (long || len(answer) > maxAnswer) && (err == nil || errors.Is(err, io.EOF)):
		return "", errLongAnswer
	case errors.Is(err, io.EOF) && answer != "":
		return answer, nil // the last line has no end
	}
	return answer, err
}
