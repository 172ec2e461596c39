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
	Field  string `json:"field,omitempty"` // of the request that is wrong
	Hint   string `json:"hint,omitempty"`

	bound string // the bound that was reached, for the observer
}

// The names of the problems, by which programs tell them apart.
const (
	problemMalformed  = "malformed"  // the body is not JSON, or not a request
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
	problemFailure    = "failure"    // a mistake in weir
)

const problemContentType = "application/problem+json"

// newProblem returns a problem; the hint says what to do, or is empty.
func newProblem(status int, name, detail, hint string) *problem {
	return &problem{Type: "urn:weir:" + name, Title: http.StatusText(status), Status: status, Detail: detail,
		Hint: hint}
}

// invalid says that a field of the request is wrong, and what to write instead.
func invalid(field, what, hint string) *problem {
	p := newProblem(http.StatusBadRequest, problemInvalid, what, hint)
	if p.Field = field; field != "" {
		p.Detail = field + ": " + what
	}
	return p
}

// malformed says that the body as a whole cannot be read.
func malformed(what, hint string) *problem {
	return newProblem(http.StatusBadRequest, problemMalformed, what, hint)
}

// full says which bound of the gate is reached.
func full(bound, what string, limit int) *problem {
	p := newProblem(http.StatusServiceUnavailable, problemFullPrefix+bound,
		fmt.Sprintf("the gate is full: %s are limited to %d", what, limit), "try again later")
	p.bound = bound
	return p
}

// tooLarge says which bound a request exceeds.
func tooLarge(bound, what string, limit any) *problem {
	p := newProblem(http.StatusRequestEntityTooLarge, problemTooLarge+bound,
		fmt.Sprintf("%s: the bound is %v", what, limit), "")
	p.bound = bound
	return p
}

func noHold() *problem {
	p := newProblem(http.StatusNotFound, problemNoHold,
		"there is no such hold: it has been settled, it has expired, or it never was", "")
	p.Field = "hold"
	return p
}

func otherNode(own string) *problem {
	p := newProblem(http.StatusConflict, problemOtherNode,
		fmt.Sprintf("the hold was given by another node, or before a restart; this node is %s", own),
		"settle a hold where it was taken: it begins with the name of its node")
	p.Field = "hold"
	return p
}

func stopping() *problem {
	return newProblem(http.StatusServiceUnavailable, problemStopping, "the gate stops, and what it holds is settled",
		"ask again, elsewhere or later")
}

// timedOut says that a client did not send its body, or has left. Clients that have left do not read it.
func timedOut(what string) *problem {
	return newProblem(http.StatusRequestTimeout, problemTimeout, what, "")
}

func failure() *problem {
	return newProblem(http.StatusInternalServerError, problemFailure, "the gate failed to decide; its log says why", "")
}

// quoted shows what a client wrote, up to a length.
func quoted(s string) string { return strconv.Quote(short(s)) }

func short(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
