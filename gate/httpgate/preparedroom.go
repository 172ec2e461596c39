package httpgate

import (
	"bytes"
	"strings"
	"sync/atomic"
	"time"
)

// A preparedRoom is the page of the waiting room for somebody who came for the first time, without what is theirs
// alone. A flood gets that page over and over: it must not cost the template's time.
type preparedRoom struct {
	look   look
	pieces [3][]byte // before the id of the request, between it and the puzzle, behind that
}

// A look is everything that such a page depends on besides.
type look struct {
	takes, cookie, path, limit string
	age                        int
	reload                     time.Duration
	secure, cross              bool
	full, tooMany              bool
	assets                     *assets
}

// preparedRooms make pages. They keep the one that was used last; under a flood one does, as the price changes once a
// second. The zero value is ready to use.
type preparedRooms struct{ last atomic.Pointer[preparedRoom] }

// render returns the page, as renderRoom does.
func (f *preparedRooms) render(r *room) []byte {
	if in := f.of(r); in != nil {
		return in.fill(r)
	}
	return renderRoom(r)
}

// Stand-ins for what differs. The template escapes neither.
const (
	anyRequest = "weir-stand-in-for-a-request"
	anyPuzzle  = "weir-stand-in-for-a-puzzle"
)

// of returns the frame of a page, or nil when the page has to be made whole.
func (f *preparedRooms) of(r *room) *preparedRoom {
	if r.InLine || r.Post || r.Lost != "" || r.Puzzle == "" || !plain(r.Puzzle) || !plain(r.RequestID) {
		return nil
	}
	l := look{r.TakesWords(), r.Cookie, r.CookiePath, r.Limit, r.CookieAge, r.Reload, r.Secure, r.Cross, r.Full,
		r.TooMany, r.Assets}
	if last := f.last.Load(); last != nil && last.look == l {
		return last
	}
	standIn := *r
	standIn.RequestID, standIn.Puzzle = anyRequest, anyPuzzle
	before, rest, found := bytes.Cut(renderRoom(&standIn), []byte(anyRequest))
	between, behind, also := bytes.Cut(rest, []byte(anyPuzzle))
	if !found || !also {
		return nil
	}
	made := &preparedRoom{l, [3][]byte{before, between, behind}}
	f.last.Store(made)
	return made
}

// fill puts in what differs.
func (f *preparedRoom) fill(r *room) []byte {
	return bytes.Join([][]byte{f.pieces[0], []byte(r.RequestID), f.pieces[1], []byte(r.Puzzle), f.pieces[2]}, nil)
}

// plain reports whether a text needs no escaping anywhere.
func plain(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
