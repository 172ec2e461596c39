package pages

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"
	"time"

	"weir/gate/refusal"
	"weir/internal/words"
)

//go:embed room.html
var roomHTML string

var roomPages = templates("room", roomHTML)

// RoomPolicy lets the page use nothing but its own style, the scripts of the gate, and workers that run them. Some
// browsers apply it to workers, which may use WebAssembly, so it is allowed here; pages behind the gate do not get it.
// Where a form goes is left open: browsers apply form-action to redirects as well, and a shop may send its customers on
// to a bank. Any site may show the page in a frame, as it may show what is behind it: whoever is led to press something
// there repeats a request that they made, and nothing else.
var RoomPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src '" +
	styleHash(renderRoom(&Room{})) +
	"'; img-src data:; base-uri 'none'"

// styleHash is how a policy names the style that stands in a page.
func styleHash(page []byte) string {
	_, rest, _ := bytes.Cut(page, []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	sum := sha256.Sum256(style)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A Room is the page of the waiting room: it asks for a stamp, and keeps a place in line for those who cannot pay.
type Room struct {
	Look
	Puzzle    string        // the challenge; empty when there is none to solve
	Takes     time.Duration // about so long on a phone
	Cookie    string        // the cookie that the stamp goes into
	CookieAge int           // seconds
	Secure    bool
	Cross     bool          // the cookie has a twin: see Crosses
	InLine    bool          // the ticket was presented: the place counts
	Ahead     int           // how many are before
	Estimate  time.Duration // 0: nobody can tell
	Reload    time.Duration // 0: there is no line
	Full      bool          // the line is full: keep trying
	TooMany   bool          // too many of this network are in line
	Form      *Form         // to be sent again; nil for none
	Dear      bool          // the stamp costs more than usual, as too many requests from that address did not pay
	Lost      words.Text    // why what was sent cannot be sent again from here, as a sentence; empty when it can
	Limit     string        // the client's own limit that is used up, as a sentence; empty where it is the load
	RequestID string
	Assets    *Assets // the scripts; nil names them without their versions
}

// renderRoom returns the page. It never fails: the template does nothing that could.
func renderRoom(r *Room) []byte {
	var b bytes.Buffer
	if err := roomPages[r.Language.Index()].Execute(&b, r); err != nil {
		return []byte(r.Language.Say("This site is very busy right now.") + "\n")
	}
	return b.Bytes()
}

// Solver and Script are the addresses of the page's scripts.
func (r *Room) Solver() string { return r.Assets.address("solver.js") }
func (r *Room) Script() string { return r.Assets.address(roomScripts[r.Language.Index()]) }

// Shared reports whether a stamp that another tab paid is good for this one too.
func (r *Room) Shared() bool { return strings.TrimPrefix(r.Cookie, hostPrefix) == StampCookie }

// Why says why anything is asked.
func (r *Room) Why() string {
	if r.Limit != "" {
		return r.Limit
	}
	return r.Language.Say("This site is very busy right now.")
}

// Refreshes reports whether the page reloads by itself without a script.
func (r *Room) Refreshes() bool { return r.Reload > 0 && r.Form == nil && r.Lost == "" }

// ReloadSeconds is when to come again.
func (r *Room) ReloadSeconds() int64 { return refusal.WholeSeconds(r.Reload) }

// LostWords is why what was sent cannot be sent again.
func (r *Room) LostWords() string { return r.Language.Say(r.Lost) }

// TakesWords is how long the work takes, in words.
func (r *Room) TakesWords() string {
	if r.Takes <= 0 {
		return ""
	}
	return r.Language.Say("about {time} on a phone", "time", inWords(r.Language, refusal.WholeSeconds(r.Takes)))
}

// Place says where in the line the client is.
func (r *Room) Place() string {
	l := r.Language
	switch {
	case r.Reload <= 0:
		return l.Say("There is no line to wait in.")
	case r.Full:
		return l.Say("The line is full right now.")
	case r.TooMany:
		return l.Say("Too many in your network are in line already.")
	case !r.InLine:
		return l.Say("You are being put in line.")
	}
	before := l.Say("You are next")
	if r.Ahead > 0 {
		before = l.Count(int64(r.Ahead), "{n} person is ahead of you", "{n} people are ahead of you")
	}
	if r.Estimate <= 0 {
		return l.Say("{place}. Nobody can tell how long it will take.", "place", before)
	}
	return l.Say("{place}, about {time}.", "place", before, "time", inWords(l, refusal.WholeSeconds(r.Estimate)))
}

// Next says what happens next, and what there is to do.
func (r *Room) Next() string {
	in, l := inTime(r.Language, r.ReloadSeconds()), r.Language
	switch {
	case r.Reload <= 0 && r.Lost != "":
		return l.Say("Please go back after a while, and send it again.")
	case r.Reload <= 0:
		return l.Say("Please try again after a while.")
	case r.Lost != "" && (r.Full || r.TooMany):
		return l.Say("Please go back {in}, and send it again: there may be room by then.", "in", in)
	case r.Lost != "":
		return l.Say("Please go back {in}, and send it again: your place is kept until then, and a while longer.", "in", in)
	case r.Form != nil && (r.Full || r.TooMany):
		return l.Say("What you sent is kept in this page. Please try again {in}: there may be room by then.", "in", in)
	case r.Form != nil:
		return l.Say("What you sent is kept in this page. Please try again {in}: your place is kept until then, and a "+
			"while longer.", "in", in)
	case r.Full, r.TooMany:
		return l.Say("This page tries again {every}, by itself. Please leave it open.", "every", r.every())
	}
	return l.Say("This page checks {every} whether it is your turn, by itself. Please leave it open.", "every", r.every())
}

// every says how often the page looks.
func (r *Room) every() string {
	if r.ReloadSeconds() == 1 {
		return r.Language.Say("every second")
	}
	return r.Language.Say("every {time}", "time", inWords(r.Language, r.ReloadSeconds()))
}
