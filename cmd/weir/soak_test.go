package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/needs"
)

// What is measured of a running weir, by the names of its metrics.
var measured = []struct {
	metric, name string
	unit         float64
}{
	{"go_gc_heap_live_bytes", "heap after a collection, MiB", 1 << 20},
	{"process_open_fds", "file descriptors", 1},
	{"go_goroutines", "goroutines", 1},
}

// onDemand is how many descriptors and goroutines may be left that were not there before: a gate starts its watch of
// clients that hang up with the first one who waits, the runtime its workers with the first garbage. Whatever leaks
// with each request or each reload is more.
const onDemand = 12

// TestSoak: mixed load with reloads in between, against a weir of its own process. Every request is answered as it
// should be, every message that was accepted arrives once, no reload fails, and when the load ends, descriptors and
// goroutines are as many as after the warm-up. "make long" soaks for an hour (or WEIR_SOAK=10m), and then neither the
// heap nor these have a slope. Otherwise the load ends when each of its parts has done something over some reloads.
func TestSoak(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	var length time.Duration
	every, reloads := 100*time.Millisecond, 100*time.Millisecond
	if needs.Long() {
		length, every, reloads = time.Hour, 10*time.Second, 7*time.Second
		if text := os.Getenv("WEIR_SOAK"); text != "" {
			var err error
			if length, err = time.ParseDuration(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newSoak(t)
	s.load(length/12, reloads, nil) // tables and pools that fill once are full afterwards
	rest := s.rest(nil)
	var samples [][]float64
	cpu := s.metrics()["process_cpu_seconds_total"]
	began := time.Now()
	s.load(length, reloads, func(stop <-chan struct{}) {
		for ticks := time.Tick(every); ; {
			select {
			case <-ticks:
				samples = append(samples, s.sample())
			case <-stop:
				return
			}
		}
	})
	took := time.Since(began)
	cpu = s.metrics()["process_cpu_seconds_total"] - cpu
	s.table(samples, took, cpu)
	s.rest(rest)
	if failed := s.metrics()[`weir_reloads_total{result="failed"}`]; failed != 0 {
		t.Errorf("%.0f reloads failed", failed)
	}
	if !needs.Long() {
		return
	}
	blocks := floors(samples, int(2*time.Minute/every))
	late := blocks[len(blocks)/4:]
	for i, m := range measured {
		values := make([]float64, len(late))
		for n, block := range late {
			values[n] = block[i]
		}
		line := trendOf(values)
		const anHour = 30 // blocks
		t.Logf("%s: %+.2f %% an hour", m.name, 100*line.growth(anHour))
		if len(late) >= 10 && line.leaks(min(anHour, len(late))) { // fewer tell nothing
			t.Errorf("%s: grows by %.1f %% in %d minutes", m.name, 100*line.growth(len(late)), 2*len(late))
		}
	}
}

// floors are the least values of each block of samples. Whatever leaks lifts them; a password that is verified while
// garbage is collected, which takes 19 MiB, does not: the runtime collects at least every two minutes.
func floors(samples [][]float64, size int) (least [][]float64) {
	for block := range slices.Chunk(samples, size) {
		low := slices.Clone(block[0])
		for _, sample := range block {
			for i, v := range sample {
				low[i] = min(low[i], v)
			}
		}
		least = append(least, low)
	}
	return least
}

// A soak is a weir, what is in front of it and behind it.
type soak struct {
	*testing.T
	weir             *exec.Cmd
	folder           string
	at               map[string]string // addresses, by the names that the configuration has for them
	control          *console.Client
	upstream, secure *httptest.Server
	hop              *hop
	accepted         atomic.Int64 // recipients, by weir
	drivers          []driver

	mu     sync.Mutex
	sent   map[string]int
	failed map[string]int
	turn   int // of the configuration
}

func newSoak(t *testing.T) *soak {
	s := &soak{T: t, at: map[string]string{}, sent: map[string]int{}, failed: map[string]int{}}
	var err error
	if s.folder, err = os.MkdirTemp("", "weir"); err != nil { // t.TempDir has too long a name for a socket
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.folder) })
	s.upstream = httptest.NewServer(http.HandlerFunc(serveHello))
	t.Cleanup(s.upstream.Close)
	s.secure = httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(s.secure.Close)
	s.certificate()
	s.hop = newHop(t, "")
	s.at["echo"], s.at["answers"] = echoTCP(t), echoUDP(t)
	for _, name := range []string{"plain", "secure", "paid", "extra", "tcp", "udp", "mail", "api", "auth", "policy",
		"console"} {
		s.at[name] = needs.FreeAddress()
	}
	s.configure()
	s.start()
	s.drivers = s.allDrivers()
	return s
}

func (s *soak) certificate() {
	certificate := s.secure.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		s.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(s.folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			s.Fatal(err)
		}
	}
}

// configure writes the configuration: each time with other limits, every second time without a gate that the others
// have.
func (s *soak) configure() {
	s.mu.Lock()
	s.turn++
	turn := s.turn
	s.mu.Unlock()
	extra := ""
	if turn%2 == 0 {
		extra = "- {listen: $extra, upstream: $upstream, throttles: [edge]}"
	}
	text := strings.NewReplacer("$extra", extra, "$limit", strconv.Itoa(100+turn%50)).Replace(soakConfiguration)
	replace := []string{"$folder", s.folder, "$upstream", s.upstream.URL, "$hop", s.hop.address}
	for name, address := range s.at {
		replace = append(replace, "$"+name, address)
	}
	file := filepath.Join(s.folder, "weir.yaml")
	if err := os.WriteFile(file+".new", []byte(strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil { // a reload may be reading
		s.Fatal(err)
	}
}

const soakConfiguration = `
data: $folder/data
control: $folder/weir.sock
http:
- {listen: $plain, upstream: $upstream, trusted_proxies: [127.0.0.0/8], account: ["header:X-Api-Key"], throttles: [edge, plans]}
- listen: $secure
  upstream: $upstream
  tls: {cert: $folder/cert.pem, key: $folder/key.pem}
  account: ["header:X-Api-Key"]
  throttles: [plans]
- {listen: $paid, upstream: $upstream, capacity: {concurrent: 64}, throttles: [stamps]}
$extra
tcp:
- {listen: $tcp, upstream: $echo, accept: [arrivals], throttles: [pace]}
- {listen: $udp, protocol: udp, upstream: $answers, throttles: [arrivals], timeouts: {idle: 1s}}
smtp:
- {listen: $mail, hostname: mail.example.org, next_hop: $hop, auth: users, throttles: [contacts, outgoing], per_recipient: [people]}
api:
  listen: $api
  tokens: [change-me-0123456789]
  policies: {edge: [edge], plans: [plans]}
  holds: {ttl: 1s}
auth:
- {listen: $auth, for: nginx, account: ["header:X-Api-Key"], trusted_proxies: [127.0.0.0/8], throttles: [edge, plans]}
postfix:
- {listen: $policy, realm: keep, over: defer, throttles: [outgoing], per_recipient: [people]}
throttles:
  edge: {bloom: {rate: $limit/s, burst: 200}}
  arrivals: {bloom: {rate: 1000/s, burst: 1000}}
  pace: {bloom: {count: bytes, rate: 10MB/s, burst: 20MB}}
  plans:
    quota:
      policies:
      - {name: per-second, limit: $limit, period: 1s, over: delay, delay: {max: 20, max_wait: 1s}}
      - {name: at-once, kind: concurrent, limit: 20}
      - {name: few, limit: 2, period: 10s, match: {paths: [/few]}}
      - {name: per-month, limit: 100000000, period: month}
  people: {quota: {policies: [{name: per-day, limit: 10000000, period: day}]}}
  stamps: {stamp: {from_load: 0%, first: 8 bits, covers: 10, expires: 10s}}
  contacts: {reach: {threshold: 100000}}
  outgoing: {mail: {rate: 10/s, stop: 1$limit}}
console: {listen: $console}
log: {access: all}
`

// start starts weir, and returns when it is ready and knows its users.
func (s *soak) start() {
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.folder, "notify")})
	if err != nil {
		s.Fatal(err)
	}
	s.weir = exec.Command("weir", "serve", "-c", filepath.Join(s.folder, "weir.yaml"))
	s.weir.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(s.folder, "notify"))
	s.Cleanup(func() { manager.Close() })
	log := new(tail)
	s.weir.Stderr = log
	if err := s.weir.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		s.weir.Process.Signal(syscall.SIGTERM)
		if err := s.weir.Wait(); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			s.Logf("the end of the log:\n%s", log.text)
		}
	})
	manager.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := manager.Read(make([]byte, 4096)); err != nil {
		s.Fatal(err)
	}
	go func() {
		manager.SetReadDeadline(time.Time{})
		for message := make([]byte, 4096); err == nil; _, err = manager.Read(message) {
		}
	}()
	s.control = console.NewClient(filepath.Join(s.folder, "weir.sock"))
	for n := range soakUsers {
		user := console.NewUser{Name: soakUser(n), Password: soakPassword, Contact: soakUser(n) + "@private.example"}
		if _, err := console.UserAddCall.Ask(context.Background(), s.control, user); err != nil {
			s.Fatal(err)
		}
	}
}

// A tail keeps the end of what is written to it. It is read when nobody writes any more.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text); n > 256<<10 {
		t.text = append(t.text[:0], t.text[n-128<<10:]...)
	}
	return len(p), nil
}

// load runs all drivers for a time, each at its rate, with the configuration reloaded as often as said. A length of 0
// is until each driver has done enough. Whatever else is to be done meanwhile ends with the channel.
func (s *soak) load(length, reloads time.Duration, meanwhile func(stop <-chan struct{})) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	before, turns := maps.Clone(s.sent), s.turns()
	for _, d := range s.drivers {
		all.Go(func() { s.drive(d, stop) })
	}
	all.Go(func() { s.reloadEvery(reloads, stop) })
	if meanwhile != nil {
		all.Go(func() { meanwhile(stop) })
	}
	if length > 0 {
		time.Sleep(length)
	} else {
		const least = 4
		needs.Wait(s.T, "each driver has done enough", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, d := range s.drivers {
				if s.sent[d.name] < before[d.name]+least {
					return false
				}
			}
			return s.turn >= turns+2*least
		})
	}
	close(stop)
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range s.failed {
		s.Errorf("%d times: %s", n, what)
	}
	clear(s.failed)
}

// drive does the same again and again at a rate. What cannot keep up does less.
func (s *soak) drive(d driver, stop <-chan struct{}) {
	step, end := d.begin()
	defer end()
	for n, ticks := 0, time.Tick(time.Second/time.Duration(d.rate)); ; n++ {
		err := step(n)
		s.mu.Lock()
		s.sent[d.name]++
		if err != nil && len(s.failed) < 20 {
			s.failed[d.name+": "+err.Error()]++
		}
		s.mu.Unlock()
		select {
		case <-ticks:
		case <-stop:
			return
		}
	}
}

// reloadEvery reloads, by a signal and by the command in turn.
func (s *soak) reloadEvery(every time.Duration, stop <-chan struct{}) {
	for ticks := time.Tick(every); ; {
		select {
		case <-ticks:
		case <-stop:
			return
		}
		s.configure()
		if s.turns()%4 < 2 {
			s.weir.Process.Signal(syscall.SIGHUP)
		} else {
			s.reload()
		}
	}
}

// turns is how many configurations there were.
func (s *soak) turns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

func (s *soak) reload() {
	if _, err := console.ReloadCall.Ask(context.Background(), s.control, console.None{}); err != nil {
		s.Errorf("reload: %v", err)
	}
}

// metrics asks weir for its metrics.
func (s *soak) metrics() map[string]float64 {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.at["console"] + "/metrics")
	if err != nil {
		s.Error(err)
		return nil
	}
	defer resp.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), " "); found {
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				all[name] = f
			}
		}
	}
	return all
}

func (s *soak) sample() []float64 {
	all := s.metrics()
	values := make([]float64, len(measured))
	for i, m := range measured {
		values[i] = all[m.metric] / m.unit
	}
	return values
}

// rest waits until everything that was begun is done: every message has arrived, and no more descriptors and
// goroutines are in use than said, if it is said. It returns how many there are.
func (s *soak) rest(before []float64) (values []float64) {
	s.upstream.CloseClientConnections()
	for s.configure(); s.turns()%2 == 0; s.configure() { // without the gate that comes and goes
	}
	s.reload()
	defer func() {
		if s.Failed() {
			s.weir.Process.Signal(syscall.SIGQUIT) // what is under way, its log says
		}
	}()
	const wobble, enough = 2, 25 // questions for the metrics come and go, too
	var least []float64
	quiet := 0
	needs.Wait(s.T, "every accepted message has arrived, and no more is in use than before", func() bool {
		accepted, arrived := s.accepted.Load(), s.hop.arrived.Load()
		values = s.sample()
		switch {
		case accepted != arrived:
			return false
		case before != nil:
			return values[1] <= before[1]+onDemand && values[2] <= before[2]+onDemand
		case least == nil || values[1] < least[1] || values[2] < least[2]:
			least, quiet = values, 0
		case values[1] <= least[1]+wobble && values[2] <= least[2]+wobble:
			quiet++
		}
		return quiet >= enough
	})
	return values
}

// table prints what was measured, by quarters.
func (s *soak) table(samples [][]float64, took time.Duration, cpu float64) {
	var b strings.Builder
	total := 0
	s.mu.Lock()
	for _, d := range s.drivers {
		fmt.Fprintf(&b, "%s %d, ", d.name, s.sent[d.name])
		total += s.sent[d.name]
	}
	s.mu.Unlock()
	fmt.Fprintf(&b, "%.0f/s\n%s, %d reloads, %.0f %% of a processor\n", float64(total)/took.Seconds(),
		took.Round(time.Second),
		s.turns()-1, 100*cpu/took.Seconds())
	for i, m := range measured {
		fmt.Fprintf(&b, "%-30s", m.name)
		for q := range 4 {
			quarter := samples[q*len(samples)/4 : (q+1)*len(samples)/4]
			values := make([]float64, 0, len(quarter))
			for _, sample := range quarter {
				values = append(values, sample[i])
			}
			slices.Sort(values)
			if len(values) > 0 {
				fmt.Fprintf(&b, " | %s %s %s", short(values[0]), short(values[len(values)/2]),
					short(values[len(values)-1]))
			}
		}
		b.WriteString("\n")
	}
	s.Logf("min, median and max of each quarter:\n%s", &b)
}

func short(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
