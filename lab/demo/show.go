package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/internal/tabular"
)

// A show is how people see what happens. Only the warnings of a screen come from other goroutines.
type show interface {
	skip(*Scene, error)                 // a scene cannot be played here
	page(address string)                // the house is open, and there is a page of it
	open(*pair)                         // a scene begins
	half(on bool, length time.Duration) // a half begins, with the throttle or without; 0 is an open end
	draw(*Scene, *SceneReport, string)  // some time has passed: the report so far, and a hint
	note(text string)                   // something has happened
	close(*Scene, *SceneReport)         // a scene has ended
	hold(most time.Duration)            // all scenes have ended, and the page stays for so long
	restore()                           // whatever happened, leave the terminal as it was
}

// newShow returns the show, and where warnings go so that they do not disturb it.
func newShow(o Options) (show, io.Writer) {
	switch {
	case o.JSON:
		return &plain{out: io.Discard, width: o.Width}, o.Err
	case o.Terminal:
		s := &screen{out: o.Out, width: o.Width}
		return &live{plain: plain{out: o.Out, colour: o.Colour, width: o.Width}, screen: s}, &aside{s, o.Err}
	}
	return &plain{out: o.Out, colour: o.Colour, width: func() int { return 0 }}, o.Err
}

// plain writes a few lines, one after the other.
type plain struct {
	out    io.Writer
	colour bool
	width  func() int // 0 for no bound
	begun  bool       // something stands there already
}

// apart writes an empty line if something stands there already.
func (p *plain) apart() {
	if p.begun {
		fmt.Fprintln(p.out)
	}
	p.begun = true
}

func (p *plain) skip(scene *Scene, why error) {
	p.apart()
	p.heading(tabular.Ink(p.colour).Paint(tabular.Warn, "weir demo, scene "+scene.Name+" is skipped:") + " " +
		why.Error())
}

func (p *plain) heading(text string) {
	lines := []string{text}
	if width := p.width(); width > 0 && tabular.Visible(text) > width {
		lines = wrap(text, width)
	}
	for _, line := range lines {
		fmt.Fprintln(p.out, line)
	}
}

// page says where the page is. Where it is broken it could not be clicked on, so that it has a line of its own.
func (p *plain) page(address string) {
	if address == "" {
		return
	}
	p.apart()
	p.heading(tabular.Ink(p.colour).Paint(tabular.Head, "weir demo:") + " all scenes side by side, with buttons, in a " +
		"browser on this machine:")
	fmt.Fprintf(p.out, "\n  %s\n", address)
}

func (p *plain) hold(most time.Duration) {
	p.apart()
	p.heading(fmt.Sprintf("The scenes are over. The page stays open until Ctrl-C, at most %s.", weir.Duration(most)))
}

func (p *plain) open(scene *pair) {
	stage := scene.with.stage
	p.apart()
	ink := tabular.Ink(p.colour)
	p.heading(ink.Paint(tabular.Head, "weir demo, scene "+scene.Name+":") + " " + scene.Story)
	fmt.Fprintln(p.out)
	fmt.Fprintf(p.out, "  gate      %s\n", stage.Front())
	fmt.Fprintf(p.out, "  without   %s  the same, with the throttle in shadow\n", scene.without.stage.Front())
	fmt.Fprintf(p.out, "  metrics   %s\n", stage.MetricsURL())
	if scene.Try != nil {
		for i, line := range scene.Try(stage) {
			label := "try it"
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(p.out, "  %-8s  %s\n", label, line)
		}
	}
	fmt.Fprintln(p.out)
}

func (p *plain) half(on bool, length time.Duration) {
	fmt.Fprintf(p.out, "%s, for %s\n", halfName(on), seconds(length.Seconds()))
}

func (p *plain) draw(*Scene, *SceneReport, string) {}

func (p *plain) note(text string) { io.WriteString(p.out, noted(text, p.width())) }

// noted formats a note.
func noted(text string, width int) string {
	var b strings.Builder
	for i, line := range wrap(text, max(width-4, 0)) {
		mark := "  "
		if i == 0 {
			mark = "· "
		}
		fmt.Fprintf(&b, "  %s%s\n", mark, line)
	}
	return b.String()
}

func (p *plain) close(scene *Scene, r *SceneReport) {
	fmt.Fprintln(p.out)
	p.summary(scene, r)
}

func (p *plain) summary(scene *Scene, r *SceneReport) {
	for _, line := range summary(scene, r, p.width(), p.colour) {
		fmt.Fprintln(p.out, line)
	}
}

func (p *plain) restore() {}

// live shows a table that is drawn again and again in the same place.
type live struct {
	plain
	screen *screen
	noted  bool // something stands above the table
}

func (l *live) half(bool, time.Duration) {}

func (l *live) draw(scene *Scene, r *SceneReport, hint string) {
	lines := render(scene, r, hint, l.width(), tabular.Ink(l.colour))
	if l.noted {
		lines = append([]string{""}, lines...)
	}
	l.screen.draw(lines)
}

func (l *live) note(text string) {
	l.screen.above(func() { l.plain.note(text) })
	l.noted = true
}

func (l *live) close(scene *Scene, r *SceneReport) {
	l.screen.clear()
	if l.noted {
		fmt.Fprintln(l.out)
		l.noted = false
	}
	l.plain.summary(scene, r)
}

func (l *live) restore() { l.screen.clear() }

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
