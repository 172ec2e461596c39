package accesslog

import (
	"net/netip"
	"time"

	"weir"
)

// A Record is what lines tell of one request. Secrets are not in it: the account is a fingerprint, also in the path,
// and only templates show the query.
type Record struct {
	Time      time.Time // when the answer was over
	Gate      string    // as configured: where it listens
	Route     string    // its name; empty for a gate without routes
	ID        string    // of the request
	Trace     [16]byte  // the id of its trace; zeros for none
	Source    netip.Addr
	Account   string // its fingerprint
	Method    string
	Host      string
	Path      string // as the client wrote it
	Query     string
	Protocol  string // HTTP/1.1
	Referer   string // without its query
	UserAgent string
	Status    int
	In, Out   int64 // bytes of bodies
	Verdict   weir.Verdict
	By, Rule  string // what refused it, or what it waited for
	Reason    weir.Reason
	Waited    time.Duration
	Took      time.Duration
}

// A name is a value of a record.
type name uint8

const (
	nameTime name = iota
	nameLocalTime
	nameUnix
	nameGate
	nameRoute
	nameID
	nameTrace
	nameSource
	nameAccount
	nameMethod
	nameHost
	namePath
	nameQuery
	nameProtocol
	nameReferer
	nameUserAgent
	nameStatus
	nameIn
	nameOut
	nameVerdict
	nameBy
	nameRule
	nameReason
	nameWaited
	nameTook
	nameWaitedMS
	nameTotalMS
)

// Names are the names of a template, in the order of the documentation.
var Names = [...]string{
	nameTime:      "time",
	nameLocalTime: "local_time",
	nameUnix:      "unix",
	nameGate:      "gate",
	nameRoute:     "route",
	nameID:        "id",
	nameTrace:     "trace_id",
	nameSource:    "source",
	nameAccount:   "account",
	nameMethod:    "method",
	nameHost:      "host",
	namePath:      "path",
	nameQuery:     "query",
	nameProtocol:  "protocol",
	nameReferer:   "referer",
	nameUserAgent: "user_agent",
	nameStatus:    "status",
	nameIn:        "in",
	nameOut:       "out",
	nameVerdict:   "verdict",
	nameBy:        "by",
	nameRule:      "rule",
	nameReason:    "reason",
	nameWaited:    "waited",
	nameTook:      "took",
	nameWaitedMS:  "waited_ms",
	nameTotalMS:   "total_ms",
}
