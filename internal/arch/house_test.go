package arch

import (
	"path"
	"slices"
	"strings"
)

// exempt is the floor of tools for building and testing: they may import whatever they like, and nobody imports them.
const exempt = -1

// floors says on which floor each package stands. Imports go strictly down. A pattern ending in /* stands for the
// packages directly below; an exact name goes before a pattern.
var floors = map[string]int{
	"weir": 0, // the vocabulary

	"identify":          1,
	"store":             1, // contract of the durable state
	"farm":              1, // contracts between nodes
	"internal/tabular":  1, // for commands and the demo
	"internal/clock":    1, // for packages that act; a mechanism is given the time
	"internal/http1":    1, // for the bytes of HTTP
	"internal/splice":   1, // for bytes that nobody looks at
	"internal/hmackey":  1, // for tickets and stamps
	"internal/stored":   1, // for what stores keep
	"internal/queue":    1, // for those who wait
	"internal/parcel":   1, // for what nodes send each other
	"internal/turns":    1, // for logins: who is verified first
	"internal/shown":    1, // for pages, notices and bounces
	"internal/words":    1, // for what people read
	"internal/plot":     1, // for pages and reports
	"internal/yamltree": 1, // for files that people write
	"internal/readfile": 1, // for files that a configuration names
	"internal/logs":     1, // for logs
	"internal/tables":   1, // for what is remembered of strangers
	"policy/heavy":      1, // for those who watch: who is held back
	"cmd/weir/roster":   1, // for lists of users that commands read
	"lab/peers":         1, // the peers' configurations
	"lab/machine":       1, // processes for measurements

	"internal/gen/source":    1, // for what is generated of comments
	"throttle/stamp/classic": 1, // for the mechanism
	"internal/testkit/needs": 1, // for tests, and for tools of tests

	"lab/sheet":        2, // what studies show
	"throttle/*":       2,
	"identify/country": 2, // of addresses
	"identify/token":   2, // JSON web tokens
	"mail/*":           2,
	"store/*":          2,
	"farm/nats":        2, // the bus
	"farm/redis":       2, // the pot

	"policy":               3,
	"throttle/stamp/payer": 3, // the client's side
	"admission":            3,
	"mail/spool":           3,
	"notify":               3, // who is told what happens
	"traces":               3, // what a collector is told of requests
	"upstream":             3, // the services behind a gate: connections, health, retries
	"gate/refusal":         3, // what clients are told
	"internal/pacer":       3, // moves throttles when something is due
	"internal/grpcserve":   3, // for gates that are asked over gRPC

	"console/access":  4, // who may use the console
	"gate":            4, // what all gates share
	"gate/httpgate/*": 4, // parts of that gate

	"gate/*":            5,
	"gate/xdpgate/peer": 5, // to be measured against

	"middleware":   5, // an edge inside other people's programs
	"console":      5,
	"lab/simulate": 5,

	"config":    6,
	"app":       7,
	"lab/demo":  8,
	"lab/flood": 8,

	"internal/testkit/keeper":  7, // for tests and measurements: nothing below may import it
	"internal/testkit/postfix": 8, // for tests and measurements: nothing below may import it

	"cmd/weir":  9,
	"lab/bench": 9,

	"internal/testkit/*":  exempt, // what tests talk to
	"internal/arch":       exempt,
	"internal/docstest":   exempt,
	"internal/lint":       exempt,
	"internal/testreport": exempt,
	"internal/gen":        exempt,
	"internal/gen/*":      exempt,
}

// isMechanism reports whether a package decides, and so never acts.
func isMechanism(pkg string) bool { return path.Dir(pkg) == "throttle" }

// isTimeless reports whether a package is given the time and never waits.
func isTimeless(pkg string) bool {
	return isMechanism(pkg) || slices.Contains([]string{"weir", "identify", "policy", "admission", "farm"}, pkg)
}

// acting packages stand below those who decide, and act all the same: they keep deadlines.
var acting = []string{"mail/nexthop"}

// twoModules are packages on the lower floors whose one dependency comes as two modules.
var twoModules = []string{"farm/nats"} // the server and its client

// halves are gates that are the other half of a mechanism, and know it.
var halves = map[string]string{"gate/xdpgate": "throttle/bloom"}

// prometheusIn are the only packages that know of Prometheus.
var prometheusIn = []string{"console", "app"}

// floorOf returns the floor of a package, by its path inside the module. The folder of a conformance suite (farmtest)
// stands on no floor: like a tool, it is for tests alone.
func floorOf(pkg string) (floor int, known bool) {
	if floor, known = floors[pkg]; known {
		return floor, true
	}
	if strings.HasSuffix(pkg, "test") {
		return exempt, true
	}
	floor, known = floors[path.Dir(pkg)+"/*"]
	return floor, known
}
