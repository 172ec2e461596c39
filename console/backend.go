package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir"
	"weir/console/access"
	"weir/notify"
	"weir/policy"
	"weir/store"
	"weir/throttle/bloom"
)

// A Backend is the running weir. It is safe for concurrent use. Errors that are the caller's are *Error; any other
// error counts as a failure of weir.
type Backend interface {
	// Ready returns nil while every gate serves, and otherwise why not.
	Ready() error
	Status() Status
	// History returns the last minutes of the gates with a limited capacity, in the order of Status.
	History() []GateHistory
	// Overview says how weir fares, and who is held back.
	Overview(OverviewQuery) Overview
	// Refusals returns the last refusals.
	Refusals(RefusalQuery) RefusalPage
	// Throttles returns what judges, under names that differ: the configured throttles, the block list, capacities,
	// imported rules, and limiters of network interfaces.
	Throttles() []Throttle
	Account(name string) (Account, error)
	ResetAccount(name string) (Account, error)
	Why(Question) (Explanation, error)
	SetShadow(ctx context.Context, s Shadow, by string) (ShadowResult, error)
	Limits
	Bans
	// Mail is nil where there is no mail gate.
	Mail() Mail
	// Reach is nil where there is no reach throttle.
	Reach() Reach
	// Farm is nil where weir is alone.
	Farm() Farm
	// Demo is nil where weir is no demo.
	Demo() Demo
	// Access lets operators in. It is nil while the store is not open.
	Access() *access.Operators
	// Log adds to the audit log. The time of the entry is filled in.
	Log(ctx context.Context, e store.Entry) error
	// Entries returns up to limit entries of the audit log that match, the latest first.
	Entries(ctx context.Context, q store.EntryQuery, limit int) ([]store.Entry, error)
	// Backup copies the store to a folder that is empty or missing, and reports progress now and then.
	Backup(ctx context.Context, folder string, progress func(done, total int64)) error
	// NotifyTargets returns who is told of what happens, and how that goes.
	NotifyTargets() []notify.Stats
	// TryNotify sends a test to all of them, and returns what became of it.
	TryNotify(ctx context.Context, by string) []notify.Result
	// Reload reads the configuration again. It applies completely or not at all.
	Reload(ctx context.Context) error
}

// A Throttle is one throttle as the console sees it.
type Throttle struct {
	Link  *policy.Link
	Kind  string // the mechanism, as in "quota"
	Table *Table // for mechanisms that keep one
	Bloom *Bloom // for Bloom limiters
	Stamp *Stamp // for stamps
}

// A Bloom is the state of a Bloom limiter's tables.
type Bloom struct {
	bloom.Stats
	AmpleBurst int64 `json:"ample_burst,omitempty"` // if the configured burst is so small that visitors drain the limiters
}

// A Table is how full a table of accounts is.
type Table struct {
	Accounts  int    `json:"accounts" metric:"weir_quota_accounts" help:"Accounts in a quota's table."`
	Probation int    `json:"probation" metric:"weir_quota_probation_accounts" help:"Accounts and sources in a quota's table that no upstream has accepted yet."`
	Waiting   int    `json:"waiting" metric:"weir_quota_waiting" help:"Events that wait in a quota's lines now."`
	Strangers uint64 `json:"strangers" metric:"weir_quota_overflow_total" help:"Events of accounts that share limits because a quota's table is full."`
	PushedOut uint64 `json:"pushed_out" metric:"weir_quota_pushed_out_total" help:"Accounts on probation that were removed from a quota's table to make room."`
	Capped    uint64 `json:"capped" metric:"weir_quota_capped_costs_total" help:"Answers that said a higher cost than cost.max allows."`
	// In a farm, what was told to the other nodes and heard of them.
	Farm *Told `json:"farm,omitempty"`
	// With farm: exact, how the node deals with the engine.
	Lent *Lent `json:"lent,omitempty"`
}

// Told counts what the nodes of a farm tell each other about accounts.
type Told struct {
	Told    uint64 `json:"told" metric:"weir_quota_farm_told_total" help:"Counters of accounts sent to the other nodes of the farm."`
	Heard   uint64 `json:"heard" metric:"weir_quota_farm_heard_total" help:"Counters of accounts received from other nodes of the farm."`
	Ignored uint64 `json:"ignored" metric:"weir_quota_farm_ignored_total" help:"Of those, counters of policies that this node does not have, and of accounts for which its table has no room."`
}

// Lent is how a node deals with the engine of exact limits, for one throttle.
type Lent struct {
	Calls   uint64 `json:"calls" metric:"weir_quota_lent_calls_total" help:"Calls to the engine for policies with farm: exact."`
	Failed  uint64 `json:"failed" metric:"weir_quota_lent_failed_total" help:"Of those, calls that the engine did not answer in time."`
	Denied  uint64 `json:"denied" metric:"weir_quota_lent_denied_total" help:"Of those, calls for which the engine had nothing left."`
	Waited  uint64 `json:"waited" metric:"weir_quota_lent_waited_total" help:"Requests that waited for an answer of the engine."`
	Held    int    `json:"held" metric:"weir_quota_lent_accounts" help:"Accounts of which this node has something on loan from the engine."`
	Crowded uint64 `json:"crowded" metric:"weir_quota_lent_crowded_total" help:"Calls to the engine that were not made, because too many were under way."`
	Kept    uint64 `json:"kept" metric:"weir_quota_lent_kept_total" help:"Invented accounts that stay in the engine until their periods end, because too many came at once or the engine was lost."`
}

// Status sums up a running weir.
type Status struct {
	Version   string           `json:"version"`
	State     string           `json:"state"` // starting, serving or stopping
	Ready     bool             `json:"ready"`
	NotReady  string           `json:"not_ready,omitempty"` // why not
	Started   time.Time        `json:"started"`
	Config    ConfigStatus     `json:"config"`
	Gates     []GateStatus     `json:"gates"`
	XDP       []XDPStatus      `json:"xdp,omitempty"`
	Throttles []ThrottleStatus `json:"throttles"`
	Mail      *MailStatus      `json:"mail,omitempty"` // left out where there is no mail gate
	// The emergency switch is on.
	ShadowAll *ShadowAll     `json:"shadow_all,omitempty" metric:"weir_shadow_all" help:"1 while the emergency switch is on: nothing is refused or delayed."`
	Bans      BanStatus      `json:"bans"`
	Store     StoreStatus    `json:"store"`
	Upgrade   *UpgradeStatus `json:"upgrade,omitempty"` // the last one that failed
	Farm      *FarmStatus    `json:"farm,omitempty"`    // left out where weir is alone
	Console   string         `json:"console,omitempty"` // the address of the console; empty when it is off
	Control   string         `json:"control"`           // the path of the control socket
}

// ConfigStatus is about the configuration in effect.
type ConfigStatus struct {
	Path      string    `json:"path,omitempty"`
	Loaded    time.Time `json:"loaded"`  // when it took effect
	Reloads   uint64    `json:"reloads"` // that took
	Failed    uint64    `json:"failed"`  // reloads that changed nothing
	LastError string    `json:"last_error,omitempty"`
}

// UpgradeStatus is an upgrade that failed: the new binary does not take the configuration.
type UpgradeStatus struct {
	Failed time.Time `json:"failed"`
	Error  string    `json:"error"`
}

// GateStatus is one gate.
type GateStatus struct {
	Label     string         `json:"-" label:"gate"` // in metrics: Gate, with a number where several have port 0
	Gate      string         `json:"gate"`           // as configured
	Kind      string         `json:"kind"`           // http, tcp, api
	Address   string         `json:"address"`        // as bound
	Upstream  string         `json:"upstream,omitempty"`
	Accept    []string       `json:"accept,omitempty"` // the throttles that judge connections
	Throttles []string       `json:"throttles"`
	Policies  []string       `json:"policies,omitempty"` // what the decision API may be asked for
	InFlight  int64          `json:"in_flight"`
	Waiting   int64          `json:"waiting"`
	Capacity  *Capacity      `json:"capacity,omitempty" metric:"-"` // of the upstream, where it is limited
	Servers   []ServerStatus `json:"servers,omitempty"`             // of the upstream of an HTTP gate
	KeptBytes int64          `json:"kept_bytes,omitempty"`          // of bodies that are kept, so that they can be sent again
	// Routes are those of an HTTP gate, and last what no route matches: default or none.
	Routes []RouteStatus `json:"routes,omitempty"`
	// Unlisted are addresses that look like proxies which trusted_proxies does not name, the busiest first.
	Unlisted []UnlistedProxy `json:"unlisted_proxies,omitempty"`
}

// An UnlistedProxy is an address that is not trusted and sends a forwarding header again and again.
type UnlistedProxy struct {
	Address string `json:"address,omitempty"` // left out for the socket of the gate
	Header  string `json:"header"`
}

// Advice says what to do about it.
func (p UnlistedProxy) Advice() string {
	who, where := cmp.Or(p.Address, "Somebody on the socket"), "trusted_proxies"
	do := "name it under trusted_proxies"
	if p.Address == "" {
		where, do = "socket.trusted", "write socket: {trusted: true}"
	}
	switch p.Header {
	case "X-Real-IP":
		do += ", and let it send X-Forwarded-For"
	case "Forwarded":
		do += ", and write forwarded_header: forwarded"
	}
	return fmt.Sprintf("%s sends %s and is not trusted (%s). If it is a proxy of yours, all of its clients count as one: %s.",
		who, p.Header, where, do)
}

// Unhealthy says how many servers have failed; "" where none has.
func (g GateStatus) Unhealthy() string {
	n := 0
	for _, s := range g.Servers {
		if !s.Healthy {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case len(g.Servers):
		return "No server behind " + g.Gate + " is healthy"
	}
	return fmt.Sprintf("%d of %d servers behind %s are unhealthy", n, len(g.Servers), g.Gate)
}

// ServerStatus is a server behind an HTTP gate.
type ServerStatus struct {
	Server   string `json:"server"`  // as configured, with the address where its name was looked up
	Healthy  bool   `json:"healthy"` // it has not failed, or it is back
	InFlight int    `json:"in_flight"`
	Idle     int    `json:"idle"`     // connections kept for the next request; HTTP/1.1 only
	Requests uint64 `json:"requests"` // given to it since the start, tries included
	Failures uint64 `json:"failures"` // of those and of checks
	// Routes are those whose requests it gets, default for the upstream of the gate; left out for a gate without
	// routes. A server of several routes is there once if they share its connections and its health, and else for each
	// of them.
	Routes []string `json:"routes,omitempty"`
}

// For says which routes a server gets requests of, in a few words.
func (s ServerStatus) For() string {
	const most = 3
	if more := len(s.Routes) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(s.Routes[:most], ", "), more)
	}
	return strings.Join(s.Routes, ", ")
}

// RouteStatus is one route of a gate.
type RouteStatus struct {
	Route     string            `json:"route" label:"route"`
	Hosts     []string          `json:"hosts,omitempty"` // left out for every host
	Path      string            `json:"path,omitempty"`
	Strips    bool              `json:"strip_prefix,omitempty"` // the upstream gets requests without the path
	Upstream  string            `json:"upstream,omitempty"`
	Answer    int               `json:"answer,omitempty"`   // the status that the gate answers with by itself
	Redirect  string            `json:"redirect,omitempty"` // where clients are sent to
	Throttles []string          `json:"throttles"`
	Verdicts  map[string]uint64 `json:"verdicts" metric:"weir_http_route_requests_total" label:"verdict" help:"Requests by route of an HTTP gate and by verdict."`
	Failed    uint64            `json:"failed" metric:"weir_http_route_failed_total" help:"Of the admitted requests of a route, those answered with 5xx."`
	Capacity  *Capacity         `json:"capacity,omitempty" metric:"-"` // where the route has one of its own
}

// For says which requests a route is for, in a few words.
func (r RouteStatus) For() string {
	switch {
	case len(r.Hosts) == 0 && r.Path == "":
		return ""
	case len(r.Hosts) == 0:
		return r.Path
	}
	return strings.Join(r.Hosts, ", ") + r.Path
}

// To says where a route leads to.
func (r RouteStatus) To() string {
	switch {
	case r.Answer != 0:
		return fmt.Sprintf("answers %d", r.Answer)
	case r.Redirect != "":
		return "redirects to " + r.Redirect
	case r.Upstream == "":
		return "answers 404"
	case r.Strips:
		return r.Upstream + ", without " + strings.TrimRight(r.Path, "/")
	}
	return r.Upstream
}

// WithRoutes returns the gates, and after each of them those of its routes that have a capacity of their own.
func WithRoutes(gates []GateStatus) (all []GateStatus) {
	for _, g := range gates {
		all = append(all, g)
		for _, r := range g.Routes {
			if r.Capacity != nil {
				all = append(all, GateStatus{Gate: g.Gate + " " + r.Route, Kind: g.Kind,
					Label: cmp.Or(g.Label, g.Gate) + " " + r.Route, Address: g.Address + " " + r.Route,
					Upstream: r.Upstream, Throttles: r.Throttles, Capacity: r.Capacity})
			}
		}
	}
	return all
}

// XDPStatus is the limiter of one network interface.
type XDPStatus struct {
	Interface string `json:"interface" label:"interface"`
	Mode      string `json:"mode"` // what counts: syn, packets or bytes
	// Where it runs: native or generic; empty when it does not.
	Attach string `json:"attach" metric:"weir_xdp_attached" help:"1 while the packets of an interface are limited."`
	Error  string `json:"error,omitempty"` // why it does not
	Shadow bool   `json:"shadow"`
	Bans   int    `json:"bans" metric:"weir_xdp_bans" help:"Networks that an interface bans."`
	// Networks of the block list that do not fit into the kernel.
	LeftOut int               `json:"bans_left_out" metric:"weir_xdp_bans_omitted" help:"Networks on the block list that an interface has no space to ban."`
	Allows  int               `json:"allows"`
	Packets map[string]uint64 `json:"packets" metric:"weir_xdp_packets_total" label:"result" help:"Packets in the kernel, by result."`
}

// ThrottleStatus is one throttle.
type ThrottleStatus struct {
	Throttle string `json:"throttle" label:"throttle"`
	Kind     string `json:"kind"`
	// It judges and counts, and admits everything.
	Shadow       bool              `json:"shadow" metric:"weir_throttle_shadow" help:"1 while the throttle judges and counts, but admits everything."`
	OnError      policy.OnError    `json:"on_error"`
	Verdicts     map[string]uint64 `json:"verdicts"` // by verdict, as acted upon
	Shadowed     map[string]uint64 `json:"shadowed"` // by verdict, in shadow
	Errors       uint64            `json:"errors" metric:"weir_throttle_errors_total" help:"How often a throttle failed to judge."`
	ExpiredWaits uint64            `json:"expired_waits" metric:"weir_throttle_expired_waits_total" help:"Waits that ended without a turn."`
	*Table
	Bloom *Bloom `json:"bloom,omitempty"`
	Stamp *Stamp `json:"stamp,omitempty"`
}

func (t Throttle) Status() ThrottleStatus {
	s := ThrottleStatus{
		Throttle: t.Link.Name, Kind: t.Kind, Shadow: t.Link.Shadow.Load(), OnError: t.Link.OnError,
		Verdicts: map[string]uint64{}, Shadowed: map[string]uint64{},
		Errors: t.Link.Counts.Errors.Load(), ExpiredWaits: t.Link.Counts.Expired.Load(), Table: t.Table, Bloom: t.Bloom,
		Stamp: t.Stamp,
	}
	if s.OnError == "" {
		s.OnError = policy.Closed
	}
	for _, v := range weir.Verdicts {
		s.Verdicts[v.String()], s.Shadowed[v.String()] = t.Link.Counts.Total(v)
	}
	return s
}

// An Account is what the throttles know of one account.
type Account struct {
	Account   string            `json:"account"`
	Logged    string            `json:"logged"`           // as the access log shows it, since this weir was started
	Throttles []AccountThrottle `json:"throttles"`        // those that know it
	Limits    []AccountLimit    `json:"limits,omitempty"` // of its own
}

// AccountThrottle is what one throttle knows of an account.
type AccountThrottle struct {
	Throttle string `json:"throttle"`
	Key      string `json:"key,omitempty"` // of which the figures are, where the account has several
	Plan     string `json:"plan,omitempty"`
	Rules    []Rule `json:"rules"`
	Waiting  int    `json:"waiting"`
}

// A Rule is the state of one rule: a weir.Figure in units that scripts can read.
type Rule struct {
	By        string  `json:"by,omitempty"`
	Rule      string  `json:"rule"`
	Unit      string  `json:"unit"`
	Limit     int64   `json:"limit"`
	Remaining int64   `json:"remaining"`
	Seconds   float64 `json:"window_seconds,omitempty"` // per how long; left out for a level
	// the same in words: 1h, or month where it is one of the calendar
	Per   string    `json:"per,omitempty"`
	Reset time.Time `json:"reset,omitzero"` // when there is room again; left out when nobody can tell
}

// Rules turns figures into rules.
func Rules(figures []weir.Figure) []Rule {
	rules := make([]Rule, 0, len(figures))
	for _, f := range figures {
		rules = append(rules, Rule{
			By: f.By, Rule: f.Rule, Unit: f.Unit, Limit: f.Limit, Remaining: f.Remaining,
			Seconds: f.Window.Length().Seconds(), Reset: f.Reset,
		})
		if f.Window > 0 {
			rules[len(rules)-1].Per = f.Window.String()
		}
	}
	return rules
}

// A Question asks what would happen to a request now, or to a message if it has recipients.
type Question struct {
	Gate    string `json:"gate,omitempty"` // by its listen address; may be left out when there is one
	Method  string `json:"method"`
	Host    string `json:"host,omitempty"`
	Path    string `json:"path"` // escaped, as a client sends it
	Source  string `json:"source,omitempty"`
	Client  string `json:"client,omitempty"` // the id that weir gave to it
	Account string `json:"account,omitempty"`
	Plan    string `json:"plan,omitempty"`
	// What keys of limits are made of, besides that, by the name of the part: header:X-Tenant.
	Parts map[string]string `json:"parts,omitempty"`

	// Of a message.
	User   string   `json:"user,omitempty"`
	Sender string   `json:"sender,omitempty"` // <> for none; empty: an address of the user's
	To     []string `json:"to,omitempty"`
}

// An Explanation answers a Question.
type Explanation struct {
	Gate    string       `json:"gate"`
	Route   string       `json:"route,omitempty"` // where the gate has routes
	Ends    string       `json:"ends,omitempty"`  // what becomes of an admitted request that goes to no upstream
	Verdict weir.Verdict `json:"verdict"`
	By      string       `json:"by,omitempty"` // the throttle that decides
	Text    string       `json:"text"`
	Steps   []Step       `json:"steps"`
}

// A Step is the answer of one throttle.
type Step struct {
	Throttle string       `json:"throttle"`
	Shadow   bool         `json:"shadow"` // what it says is not acted upon
	Verdict  weir.Verdict `json:"verdict"`
	Reason   weir.Reason  `json:"reason,omitempty"`
	Rule     string       `json:"rule,omitempty"` // the rule that decides
	Until    time.Time    `json:"until,omitzero"`
	Text     string       `json:"text"`
	Key      string       `json:"key,omitempty"` // what it is counted as, where that is not the account alone
	Rules    []Rule       `json:"rules"`
	// Limits are those that the account has of its own.
	Limits []AccountLimit `json:"limits,omitempty"`
}

// Shadow asks to take throttles into shadow or out of it.
type Shadow struct {
	Throttles []string `json:"throttles,omitempty"`
	// All is the emergency switch. It lasts until it is turned off, over restarts; each throttle is then as it was.
	All  bool   `json:"all,omitempty"`
	On   bool   `json:"on"`
	Note string `json:"note,omitempty"` // why all are in shadow, for people who ask later
}

// A ShadowAll says that the emergency switch is on.
type ShadowAll struct {
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"`
	Farm bool      `json:"farm,omitempty"` // on all nodes
}

// ShadowState says whether a throttle is in shadow.
type ShadowState struct {
	Throttle string `json:"throttle"`
	Shadow   bool   `json:"shadow"`
}

// An Error is an error that the caller can act on, with its HTTP status on the control socket.
type Error struct {
	Code int    `json:"-"`
	Msg  string `json:"error"`
}

func (e *Error) Error() string { return e.Msg }

// NotFound returns an error for something that does not exist.
func NotFound(msg string) *Error { return &Error{http.StatusNotFound, msg} }

// Invalid returns an error for a request that makes no sense.
func Invalid(msg string) *Error { return &Error{http.StatusBadRequest, msg} }

// Rejected returns an error for a change that was not made.
func Rejected(msg string) *Error { return &Error{http.StatusConflict, msg} }
