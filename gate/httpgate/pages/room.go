package pages

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strconv"
	"strings"
	"time"

	"weir/gate/refusal"
)

//go:embed room.html
var roomHTML string

var roomPage = template.Must(template.New("room").Parse(roomHTML))

// RoomPolicy lets the page use nothing but its own style, the scripts of the gate, and workers that run them. Where a
// form goes is left open: browsers apply form-action to redirects as well, and a shop may send its customers on to a
// bank. Any site may show the page in a frame, as it may show what is behind it: whoever is led to press something
// there repeats a request that they made, and nothing else.
var RoomPolicy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src '" +
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
	Lost      string        // why what was sent cannot be sent again from here, as a sentence; empty when it can
	Limit     string        // the client's own limit that is used up, as a sentence; empty where it is the load
	RequestID string
	Assets    *Assets // the scripts; nil names them without their versions
}

// renderRoom returns the page. It never fails: the template does nothing that could.
func renderRoom(r *Room) []byte {
	var b bytes.Buffer
	if err := roomPage.Execute(&b, r); err != nil {
		return []byte("One moment, please: this site is very busy right now.\n")
	}
	return b.Bytes()
}

// Solver and Script are the addresses of the page's scripts.
func (r *Room) Solver() string { return r.Assets.address("solver.js") }
func (r *Room) Script() string { return r.Assets.address("room.js") }

// Shared reports whether a stamp that another tab paid is good for this one too.
func (r *Room) Shared() bool { return r.Cookie == StampCookie }

// Why says why anything is asked.
func (r *Room) Why() string {
	if r.Limit != "" {
		return r.Limit
	}
	return "This site is very busy right now."
}

// Refreshes reports whether the page reloads by itself without a script.
func (r *Room) Refreshes() bool { return r.Reload > 0 && r.Form == nil && r.Lost == "" }

// ReloadSeconds is when to come again.
func (r *Room) ReloadSeconds() int64 { return refusal.WholeSeconds(r.Reload) }

// TakesWords is how long the work takes, in words.
func (r *Room) TakesWords() string {
	if r.Takes <= 0 {
		return ""
	}
	return inWords(refusal.WholeSeconds(r.Takes))
}

// Place says where in the line the client is.
func (r *Room) Place() string {
	switch {
	case r.Reload <= 0:
		return "There is no line to wait in."
	case r.Full:
		return "The line is full right now."
	case r.TooMany:
		return "Too many in your network are in line already."
	case !r.InLine:
		return "You are being put in line."
	}
	before := "You are next"
	switch {
	case r.Ahead == 1:
		before = "1 person is ahead of you"
	case r.Ahead > 1:
		before = strconv.Itoa(r.Ahead) + " people are ahead of you"
	}
	if r.Estimate <= 0 {
		return before + ". Nobody can tell how long it will take."
	}
	return before + ", about " + inWords(refusal.WholeSeconds(r.Estimate)) + "."
}

// Next says what happens next, and what there is to do.
func (r *Room) Next() string {
	again := inWords(r.ReloadSeconds())
	every := strings.TrimPrefix(again, "1 ")
	switch {
	case r.Reload <= 0 && r.Lost != "":
		return "Please go back after a while, and send it again."
	case r.Reload <= 0:
		return "Please try again after a while."
	case r.Lost != "" && (r.Full || r.TooMany):
		return "Please go back in " + again + ", and send it again: there may be room by then."
	case r.Lost != "":
		return "Please go back in " + again + ", and send it again: your place is kept until then, and a while longer."
	case r.Form != nil && (r.Full || r.TooMany):
		return "What you sent is kept in this page. Please try again in " + again + ": there may be room by then."
	case r.Form != nil:
		return "What you sent is kept in this page. Please try again in " + again +
			": your place is kept until then, and a while longer."
	case r.Full, r.TooMany:
		return "This page tries again every " + every + ", by itself. Please leave it open."
	}
	return "This page checks every " + every + " whether it is your turn, by itself. Please leave it open."
}
