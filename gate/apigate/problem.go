package apigate

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A problem is what a client is told when its question has no answer (RFC 9457).
type problem struct {
	Type   string `json:"type"` // "urn:weir:" and the name of the problem
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"` // of the request, where the mistake stands
	Hint   string `json:"hint,omitempty"`

	bound string // that was reached, to be counted
}

// The names of the problems. Programs tell them apart by these.
const (
	problemMalformed  = "malformed"  // the body is no JSON, or no request
	problemInvalid    = "invalid"    // a field is wrong
	problemToken      = "token"      // no token, or a wrong one
	problemNotFound   = "not-found"  // no such path
	problemMethod     = "method"     // another method is wanted
	problemTimeout    = "timeout"    // the body did not come
	problemNoHold     = "no-hold"    // settled, expired, or never given
	problemOtherNode  = "other-node" // a hold that another node gave
	problemFullPrefix = "full-"      // and the bound that is reached
	problemTooLarge   = "too-large-" // and the bound that is exceeded
	problemStopping   = "stopping"   // the gate stops
	problemFailure    = "failure"    // a mistake of our own
)

const problemContentType = "application/problem+json"

func newProblem(status int, name, detail string) *problem {
	return &problem{Type: "urn:weir:" + name, Title: http.StatusText(status), Status: status, Detail: detail}
}

// invalid says that a field of the request is wrong, and what to write instead.
func invalid(field, what, hint string) *problem {
	p := newProblem(http.StatusBadRequest, problemInvalid, what)
	if field != "" {
		p.Detail = field + ": " + what
	}
	p.Field, p.Hint = field, hint
	return p
}

// malformed says that the body as a whole cannot be read.
func malformed(what, hint string) *problem {
	p := newProblem(http.StatusBadRequest, problemMalformed, what)
	p.Hint = hint
	return p
}

// full says that the gate has no room, and why.
func full(bound, what string, limit int) *problem {
	p := newProblem(http.StatusServiceUnavailable, problemFullPrefix+bound,
		fmt.Sprintf("the gate has no room: %s are bounded at %d", what, limit))
	p.Hint, p.bound = "try again later", bound
	return p
}

// tooLarge says that a request goes beyond a bound, and which.
func tooLarge(bound, what string, limit any) *problem {
	p := newProblem(http.StatusRequestEntityTooLarge, problemTooLarge+bound,
		fmt.Sprintf("%s: the bound is %v", what, limit))
	p.bound = bound
	return p
}

func noHold() *problem {
	p := newProblem(http.StatusNotFound, problemNoHold,
		"there is no such hold: it has been settled, it has expired, or it never was")
	p.Field = "hold"
	return p
}

func otherNode(own string) *problem {
	p := newProblem(http.StatusConflict, problemOtherNode,
		fmt.Sprintf("the hold was given by another node, or before a restart; this node is %s", own))
	p.Field, p.Hint = "hold", "settle a hold where it was taken: it begins with the name of its node"
	return p
}

func stopping() *problem {
	p := newProblem(http.StatusServiceUnavailable, problemStopping, "the gate stops, and what it holds is settled")
	p.Hint = "ask again, elsewhere or later"
	return p
}

// left is for a client that has left. Nobody reads it.
func left() *problem {
	return newProblem(http.StatusRequestTimeout, problemTimeout, "the client has left")
}

func failure() *problem {
	return newProblem(http.StatusInternalServerError, problemFailure, "the gate failed to decide; its log says why")
}

// quoted shows what a client wrote, but not at any length.
func quoted(s string) string { return strconv.Quote(short(s)) }

func short(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
