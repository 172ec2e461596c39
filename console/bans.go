package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir"
)

// MaxBanPage is how many bans one answer holds, so that an answer is never larger than a client reads.
const MaxBanPage = 10_000

// Bans is the block list, for commands. It is safe for concurrent use.
type Bans interface {
	BanStatus() BanStatus
	// Bans returns a part of the list.
	Bans(BanQuery) (BanPage, error)
	// Ban adds a ban for an operator. It returns when a restart would keep the ban, or with a warning that it would
	// not.
	Ban(ctx context.Context, o BanOrder, by string) (BanResult, error)
	// Unban removes a ban and returns it.
	Unban(ctx context.Context, who, by string) (BanResult, error)
}

// A Ban is an entry of the block list, in the form that operators write.
type Ban struct {
	Who      string    `json:"who"`              // an address, a network, or client:ID
	Reason   string    `json:"reason,omitempty"` // why
	By       string    `json:"by,omitempty"`     // the operator, or the throttle
	Operator bool      `json:"operator"`         // an operator did it
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // left out: permanent
}

// BanStatus sums up the block list.
type BanStatus struct {
	Clients   int    `json:"clients"`
	Networks  int    `json:"networks"`
	Operators int    `json:"operators"` // of both, what operators added
	Max       int    `json:"max"`       // of both together
	Added     uint64 `json:"added"`     // since the start, as everything below
	Removed   uint64 `json:"removed"`   // by operators
	Expired   uint64 `json:"expired"`
	Evicted   uint64 `json:"evicted"`   // pushed out by others
	Refused   uint64 `json:"refused"`   // bans for which there was no room
	Offences  uint64 `json:"offences"`  // told by throttles
	Addresses uint64 `json:"addresses"` // banned for their clients
}

// Summary says in a sentence who is banned.
func (b BanStatus) Summary() string {
	if b.Clients+b.Networks == 0 {
		return "Nobody is banned."
	}
	text := "Banned are " + several(b.Clients, "client") + " and " + several(b.Networks, "network")
	if b.Operators > 0 {
		text += fmt.Sprintf(", %d of them by operators", b.Operators)
	}
	return text + "."
}

// StoreStatus says whether the data folder can be written.
type StoreStatus struct {
	Path     string      `json:"path,omitempty"`
	Writes   uint64      `json:"writes"` // that are safe
	Failures uint64      `json:"failures"`
	Parts    []StorePart `json:"parts"`
}

// A StorePart is one kind of data in the folder.
type StorePart struct {
	Part     string `json:"part"`            // bans, counters
	Unsaved  int    `json:"unsaved"`         // changes that are in memory only
	Failures uint64 `json:"failures"`        // since the start
	Error    string `json:"error,omitempty"` // why it cannot be written; empty when it can
}

// A BanQuery asks for a part of the block list.
type BanQuery struct {
	// a text in who, reason or by; an address or a network also finds the networks around and within it
	Filter string
	After  string // the Next of the page before
	Limit  int    // at most MaxBanPage, which is the default
}

// A BanPage is a part of the block list, in order: networks by address, then clients by id.
type BanPage struct {
	Bans  []Ban  `json:"bans"`
	Total int    `json:"total"`          // how many the filter finds, over all pages
	Next  string `json:"next,omitempty"` // where the next page begins; empty on the last one
}

// A BanOrder asks for a ban.
type BanOrder struct {
	Who    string        `json:"who"`
	For    weir.Duration `json:"for,omitzero"` // 0: permanent
	Reason string        `json:"reason,omitempty"`
}

// A BanResult is the result of a BanOrder.
type BanResult struct {
	Ban      Ban      `json:"ban"`
	Kept     bool     `json:"kept"`               // a restart does not lose it
	Warnings []string `json:"warnings,omitempty"` // what the operator should know
}

func (c *Control) banHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/bans", answer(func(r *http.Request, _ *none) (any, error) {
		q := r.URL.Query()
		limit, err := strconv.Atoi(q.Get("limit"))
		if q.Has("limit") && (err != nil || limit < 1 || limit > MaxBanPage) {
			return nil, Invalid("limit: 1 to " + strconv.Itoa(MaxBanPage))
		}
		return c.backend.Bans(BanQuery{Filter: q.Get("filter"), After: q.Get("after"), Limit: limit})
	}))
	mux.HandleFunc("POST /v1/bans", answer(func(r *http.Request, o *BanOrder) (any, error) {
		return c.backend.Ban(r.Context(), *o, operator(r))
	}))
	mux.HandleFunc("DELETE /v1/bans", answer(func(r *http.Request, _ *none) (any, error) {
		return c.backend.Unban(r.Context(), r.URL.Query().Get("who"), operator(r))
	}))
}

// Bans returns a part of the block list.
func (c *Client) Bans(ctx context.Context, q BanQuery) (BanPage, error) {
	return fetch[BanPage](ctx, c, http.MethodGet,
		withQuery("/v1/bans", "filter", q.Filter, "after", q.After, "limit", ifSet(q.Limit)), nil)
}

// Ban adds a ban to the block list.
func (c *Client) Ban(ctx context.Context, o BanOrder) (BanResult, error) {
	return fetch[BanResult](ctx, c, http.MethodPost, "/v1/bans", o)
}

// Unban removes a ban from the block list and returns it.
func (c *Client) Unban(ctx context.Context, who string) (BanResult, error) {
	return fetch[BanResult](ctx, c, http.MethodDelete, "/v1/bans?who="+url.QueryEscape(who), nil)
}

// anOperator is the name of an operator that the system does not name.
const anOperator = "operator"

type connKey struct{}

// withConn gives handlers the connection, which knows the user at its other end.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// operator is the name of the user who sent a request.
func operator(r *http.Request) string {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	if b, ok := c.(*boundedConn); ok {
		c = b.Conn
	}
	if u, ok := c.(*net.UnixConn); ok {
		if name := peerName(u); name != "" {
			return name
		}
	}
	return anOperator
}
