package pages

import (
	"bytes"
	"strings"
	"sync/atomic"
	"time"

	"weir/gate/refusal"
	"weir/internal/words"
)

// Rooms make pages of the waiting room. A flood gets the page for newcomers over and over, and that must not cost the
// template's time: Rooms keep the last one of each language, without what belongs to one client. One is enough, as the
// price changes once a second. The zero value is ready to use. Rooms are safe for concurrent use.
type Rooms struct {
	last [words.Most]atomic.Pointer[preparedRoom]
}

type preparedRoom struct {
	room   Room
	pieces [3][]byte // before the id of the request, between it and the puzzle, after that
}

// Stand-ins for what differs from client to client. The template escapes neither.
const (
	anyRequest = "weir-stand-in-for-a-request"
	anyPuzzle  = "weir-stand-in-for-a-puzzle"
)

// Render returns the page.
func (p *Rooms) Render(r *Room) []byte {
	if in := p.prepared(r); in != nil {
		return bytes.Join([][]byte{in.pieces[0], []byte(r.RequestID), in.pieces[1], []byte(r.Puzzle), in.pieces[2]},
			nil)
	}
	return renderRoom(r)
}

// prepared returns the prepared page, or nil when the page differs in more.
func (p *Rooms) prepared(r *Room) *preparedRoom {
	if r.Dear || r.InLine || r.Form != nil || r.Lost != "" || r.Puzzle == "" || !plain(r.Puzzle) || !plain(r.RequestID) {
		return nil
	}
	standIn := *r
	standIn.RequestID, standIn.Puzzle = anyRequest, anyPuzzle
	standIn.Ahead, standIn.Estimate = 0, 0 // the page shows them in line only
	standIn.Takes = time.Duration(refusal.WholeSeconds(r.Takes)) * time.Second
	kept := &p.last[r.Language.Index()]
	if last := kept.Load(); last != nil && last.room == standIn {
		return last
	}
	before, rest, found := bytes.Cut(renderRoom(&standIn), []byte(anyRequest))
	between, behind, also := bytes.Cut(rest, []byte(anyPuzzle))
	if !found || !also {
		return nil
	}
	made := &preparedRoom{standIn, [3][]byte{before, between, behind}}
	kept.Store(made)
	return made
}

// plain reports whether a text needs no escaping anywhere.
func plain(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
