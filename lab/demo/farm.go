package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	random "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/gate/httpgate"
	"weir/lab/machine"
	"weir/throttle/ban"
	"weir/throttle/stamp"
	behind "weir/upstream"
)

// The figures of the scene.
//
// One service stands behind three nodes. Everybody is asked for a stamp, which pays for one request and costs next to
// nothing: the scene is about who keeps count of them, not about their price. Copies of one stamp come to all nodes at
// once, so that two of them would be accepted if the nodes did not ask each other.
const (
	farmNodes  = 3
	farmPlaces = 8
	farmLine   = 16
	farmWork   = 20 * time.Millisecond
	farmPrice  = 1 << 12 // operations: four milliseconds of a phone

	farmPeople  = 4
	farmCopiers = 32 // more than the service has places and line together
	farmCopies  = 50 // of each stamp
	farmForgers = 2
	farmCaught  = 10_000 // forgers, at most: then the others stay away

	farmSettles = 20 * time.Second // what the nodes have to find each other, and to agree
)

// farmSite is what all nodes serve. A stamp pays for a page of a site, whichever node is asked for it.
const farmSite = "http://farm.example/"

// farmScene: three nodes behind a load balancer act as one. A stamp that one node asked for is paid at another and
// spent at all of them, and who is banned at one node is banned at all.
func farmScene() Scene {
	return Scene{
		Name: "farm",
		Story: fmt.Sprintf("people, copied stamps and forgers at three weirs that act as one, in front of a service "+
			"with room for %.0f requests a second", farmPlaces/farmWork.Seconds()),
		Weight: 3,
		Apart:  true,
		Rule:   "A stamp pays for one request in the whole farm. Who forges one is banned everywhere.",
		Setup:  setUpFarm,
		Ready:  func(s *Stage) error { return farmOf(s).ready(s) },
		// For a moment, on a machine that stalls for a second. The nodes then find each other again.
		Expects: []string{"a node of the farm is lost"},
		Cast: []Actor{
			{Name: "people", Role: People, Workers: farmPeople, Enter: balanced, Pause: func(Result) time.Duration {
				return 20*time.Millisecond + random.N(100*time.Millisecond)
			}},
			{Name: "copies", Role: Flood, Workers: farmCopiers, Enter: copiers, Pause: func(r Result) time.Duration {
				if r == Served {
					return 0
				}
				return 20*time.Millisecond + random.N(20*time.Millisecond) // it shares this machine with the others
			}},
			{Name: "forgers", Role: Flood, Workers: farmForgers, Enter: forgers, Pause: func(Result) time.Duration {
				return 5*time.Millisecond + random.N(10*time.Millisecond)
			}},
		},
		Try: func(s *Stage) []string {
			last := farmNodes - 1
			return []string{
				fmt.Sprintf("weir status --control %s", quoted(s.ControlPath())),
				fmt.Sprintf("weir ban add 192.0.2.7 --control %s", quoted(s.ControlPath())),
				fmt.Sprintf("weir ban list --control %s", quoted(farmOf(s).others[last-1].ControlPath())),
				fmt.Sprintf("curl -i -H 'X-Forwarded-For: 192.0.2.7' http://%s/", farmOf(s).gates[last]),
			}
		},
		Farm:   func(s *Stage) *Farm { return farmOf(s).report() },
		Tell:   tellFarm,
		Checks: checkFarm,
	}
}

// A farmland is the farm of one play. The stage's own weir is node a.
type farmland struct {
	others []*app.App        // b and c
	gates  []string          // of all nodes, in order
	asks   []*console.Client // the console of each
	copied copied
	chased chased
}

func farmOf(s *Stage) *farmland { return s.Props.(*farmland) }

func setUpFarm(s *Stage) (config.Config, error) {
	upstream, err := s.serveFlooded(farmPlaces, farmLine, farmWork)
	if err != nil {
		return config.Config{}, err
	}
	var at []string
	for range farmNodes {
		address, err := unassigned()
		if err != nil {
			return config.Config{}, err
		}
		at = append(at, address)
	}
	secret := rand.Text()
	node := func(i int) config.Config {
		return config.Config{
			Farm: &farm.Options{Node: nodeName(i), Listen: at[i], Peers: at, Secret: farm.Secrets{secret}},
			HTTP: []httpgate.Options{{
				Listen: loopback, Upstream: behind.To(upstream), Throttles: []string{"stamps"},
				// All clients are on this machine, and say where they come from as a load balancer would.
				TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			}},
			Bans: ban.Options{AddressFrom: 1},
			Throttles: map[string]config.Throttle{"stamps": {Stamp: &stamp.Options{
				Schedule: []stamp.Step{{Load: 0, Work: farmPrice}}, Covers: 1,
			}}},
		}
	}
	// The others first: they wait for each other, and the stage's own then finds both. Until then each warns that
	// somebody is missing.
	s.quiet.Store(true)
	f := new(farmland)
	if f.others, err = s.raise(node(1), node(2)); err != nil {
		return config.Config{}, err
	}
	s.Props = f
	return node(0), nil
}

func nodeName(i int) string { return string(rune('a' + i)) }

// handedOut are the ports that unassigned has returned, as keys: nobody may listen there yet.
var handedOut sync.Map

// unassigned returns a free address that the system does not give to a connection meanwhile: nodes must know the
// addresses of the others before any of them listens. It returns none twice.
func unassigned() (address string, err error) {
	for range 100 {
		port := 10_000 + random.N(20_000)
		if _, before := handedOut.LoadOrStore(port, true); before {
			err = syscall.EADDRINUSE
			continue
		}
		address = "127.0.0.1:" + strconv.Itoa(port)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("there is no free port for the nodes of a farm: %w", err)
}

// ready waits until all nodes see each other.
func (f *farmland) ready(s *Stage) error {
	defer s.quiet.Store(false)
	s.strike = append(s.strike, func() { s.quiet.Store(true) }) // at the end, too, they go one after the other
	f.gates, f.asks = []string{s.GateAddr(0)}, []*console.Client{s.control}
	for _, other := range f.others {
		f.gates = append(f.gates, other.Addr("http", 0).String())
		client := console.NewClient(other.ControlPath())
		f.asks, s.others = append(f.asks, client), append(s.others, client)
	}
	ctx, cancel := context.WithTimeout(context.Background(), farmSettles)
	defer cancel()
	for !f.together(ctx) {
		if !machine.Sleep(ctx, 10*time.Millisecond) {
			return errors.New("the nodes of the farm have not found each other")
		}
	}
	return nil
}

// together reports whether each node sees all of them.
func (f *farmland) together(ctx context.Context) bool {
	for _, node := range f.asks {
		status, err := console.StatusCall.Ask(ctx, node, console.None{})
		if err != nil || status.Farm == nil {
			return false
		}
		up := 0
		for _, n := range status.Farm.Nodes {
			if n.State == string(farm.Here) || n.State == string(farm.Up) {
				up++
			}
		}
		if up != farmNodes {
			return false
		}
	}
	return true
}

// A Farm is what became of copied stamps and of forgers in one half.
type Farm struct {
	Stamps   int64   `json:"stamps"`    // that the flood paid
	Copies   int64   `json:"copies"`    // how often it sent one of them, to any node
	Accepted int64   `json:"accepted"`  // how often that was accepted
	Most     int64   `json:"most"`      // and of a single stamp, at most
	Caught   int64   `json:"caught"`    // forgers whose stamp was refused, at node a
	Listed   int64   `json:"listed"`    // of those, how many are on the lists of all nodes
	Followed int64   `json:"followed"`  // and how many were turned away by all nodes, so far
	Spread   float64 `json:"spread_ms"` // from the ban at a until the last node refused them, the median
}

func (f *farmland) report() *Farm {
	r := new(Farm)
	f.copied.report(r)
	f.chased.report(r, f.asks)
	return r
}

func checkFarm(r SceneReport) []Check {
	if r.Farm == nil || r.Flood.Sent == 0 {
		return nil
	}
	f, copies, forgers := r.Farm, actor(r.Half, "copies"), actor(r.Half, "forgers")
	return []Check{
		{"all people were served, whichever nodes they came to", r.People.Served == r.People.Sent},
		{fmt.Sprintf("no stamp was accepted twice in the farm: %d paid, %d accepted", f.Stamps, f.Accepted),
			f.Most <= 1 && f.Accepted <= f.Stamps && copies.Served == f.Accepted},
		{fmt.Sprintf("who was banned at node a is on the lists of b and c: %d of %d", f.Listed, f.Caught),
			f.Listed == f.Caught && forgers.Served == 0},
	}
}

func tellFarm(r SceneReport) []string {
	f := r.Farm
	var told []string
	if without := r.Without; without.Flood.Sent > 0 {
		told = append(told, fmt.Sprintf("Without the throttles, the flood's %s requests to the three nodes left the "+
			"people %s; %s failed.", grouped(without.Flood.Sent), got(without.People, "after %s or more"),
			grouped(without.People.Failed)))
	}
	told = append(told, fmt.Sprintf("With them, everybody was asked for a stamp. The people came to the nodes in "+
		"turn: one asked, the next one was paid, and they got %s.", got(r.People, "within %s")))
	if f.Stamps > 0 {
		told = append(told, fmt.Sprintf("The flood paid for %s, and sent copies to all three nodes, %s in all. %s "+
			"accepted, none more than %s in the whole farm.", counted(f.Stamps, "stamp"), grouped(f.Copies),
			wasWere(f.Accepted), times(f.Most)))
	}
	if f.Caught > 0 {
		spread := ""
		if f.Followed > 0 {
			spread = fmt.Sprintf(" Banned there, they tried b and c, and half of those who tried both were refused "+
				"there within %s.", milliseconds(f.Spread))
		}
		told = append(told, fmt.Sprintf("Node a caught %s.%s In the end %s of them were on the lists of "+
			"all nodes.", counted(f.Caught, "forger"), spread, grouped(f.Listed)))
	}
	return told
}

func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(n) + " " + what
}

func wasWere(n int64) string {
	if n == 1 {
		return "1 was"
	}
	return grouped(n) + " were"
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return grouped(n) + " times"
}

// weirs returns a client for each node. They have a connection for each worker.
func (f *farmland) weirs(workers int) (nodes []*http.Transport, leave func()) {
	for _, gate := range f.gates {
		nodes = append(nodes, &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", gate)
			}})
	}
	return nodes, func() {
		for _, node := range nodes {
			node.CloseIdleConnections()
		}
	}
}
