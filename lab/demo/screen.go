package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"weir/internal/tabular"
)

// A screen draws lines in place: each frame over the one before, in one write, so that nothing flickers. It is safe for
// concurrent use.
type screen struct {
	out   io.Writer
	width func() int

	mu    sync.Mutex
	lines []string // on the terminal now
}

// Escape sequences (ECMA-48; cursor visibility is DEC's).
const (
	escHide  = "\x1b[?25l"
	escShow  = "\x1b[?25h"
	escUp    = "\x1b[%dA"
	escLine  = "\x1b[K" // the rest of the line
	escBelow = "\x1b[J" // everything below
)

func (s *screen) draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	io.WriteString(s.out, s.frame(lines))
}

// clear removes the lines and shows the cursor again.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines != nil {
		io.WriteString(s.out, s.frame(nil)+escShow)
	}
}

// above calls write for text that stays, above the lines.
func (s *screen) above(write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	if lines == nil {
		write()
		return
	}
	io.WriteString(s.out, s.frame(nil))
	write()
	io.WriteString(s.out, s.frame(lines))
}

// frame returns the text that turns the lines on the terminal into others.
func (s *screen) frame(lines []string) string {
	var b strings.Builder
	if s.lines == nil {
		b.WriteString(escHide)
	}
	b.WriteString(s.home())
	for _, line := range lines {
		b.WriteString(line + escLine + "\n")
	}
	b.WriteString(escBelow)
	s.lines = lines
	return b.String()
}

// home returns the text that moves the cursor to the first of the lines. A terminal that has become narrower has broken
// some of them.
func (s *screen) home() string {
	up, width := 0, max(s.width(), 1)
	for _, line := range s.lines {
		up += max(1, (tabular.Visible(line)+width-1)/width)
	}
	if up == 0 {
		return ""
	}
	return fmt.Sprintf(escUp, up) + "\r"
}

// aside writes other text above the lines.
type aside struct {
	screen *screen
	out    io.Writer
}

func (a *aside) Write(text []byte) (n int, err error) {
	a.screen.above(func() { n, err = a.out.Write(text) })
	return n, err
}
