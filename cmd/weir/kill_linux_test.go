package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/store"
)

// A ledger is what clients know of a weir that is killed again and again.
type ledger struct {
	mu    sync.Mutex
	mail  map[string]bool // recipients whose mail was acknowledged
	mails int
	asked map[string]int64 // requests of accounts
	used  map[string]int64 // … as the weir knew when it started

	answers     int                    // of the weir
	began, died time.Time              // the weir
	acks        map[string][]time.Time // when it has answered
	forgotten   int                    // requests
	latest      time.Duration          // how much longer ago than a save one was answered that is forgotten
}

var accounts = []string{"acme", "initech", "hooli"}

// TestKills: a weir that is killed at random, under load of mail and HTTP, loses no mail that it has acknowledged, and
// what accounts have used of a year is less than what was answered by what it had not saved yet, and never more than
// what they asked for.
func TestKills(t *testing.T) {
	t.Parallel()
	kills, most := 3, 600 // answers
	if needs.Long() {
		kills, most = 200, 4000
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, "hello")
	}))
	defer upstream.Close()
	next := newHop(t, "gone-")
	folder, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	file, web, post := filepath.Join(folder, "weir.yaml"), needs.FreeAddress(), needs.FreeAddress()
	text := fmt.Sprintf(`
data: %[1]s/data
control: %[1]s/weir.sock
console: {listen: "off"}
log: {access: "off"}
http: [{listen: "%[2]s", upstream: "%[3]s", account: ["header:X-Account"], throttles: [year]}]
smtp: [{listen: "%[4]s", auth: none, networks: [127.0.0.0/8], next_hop: "%[5]s"}]
throttles: {year: {quota: {policies: [{name: year, limit: 1000000000, period: 365d}]}}}
`, folder, web, upstream.URL, post, next.address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	control := console.NewClient(filepath.Join(folder, "weir.sock"))
	l := &ledger{mail: map[string]bool{}, asked: map[string]int64{}, used: map[string]int64{}}
	chance := rand.New(rand.NewPCG(5, 5))
	for kill := range kills {
		weir := startWeir(t, file, "weir")
		l.compare(t, control)
		l.began, l.acks, l.answers = time.Now(), map[string][]time.Time{}, 0
		var clients sync.WaitGroup
		for client := range 3 {
			clients.Go(func() { l.write(post, fmt.Sprintf("%d-%d", kill, client)) })
			clients.Go(func() { l.get(web, accounts[client]) })
		}
		answers := chance.IntN(most)
		if kill%10 == 9 {
			answers *= 4
		}
		needs.Wait(t, fmt.Sprintf("weir has answered %d times", answers), func() bool { return l.answered() >= answers })
		if err := weir.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		l.died = time.Now()
		weir.Wait()
		clients.Wait()
	}
	weir := startWeir(t, file, "weir")
	defer weir.Wait()
	defer weir.Process.Kill()
	l.compare(t, control)
	patience := time.After(5 * time.Minute)
	lacking, twice := next.lacks(l.mail)
	for ; len(lacking) > 0; lacking, twice = next.lacks(l.mail) {
		select {
		case <-next.changed:
			continue
		case <-patience:
		}
		break
	}
	asked := int64(0)
	for _, n := range l.asked {
		asked += n
	}
	t.Logf("%d kills: %d mails to %d recipients acknowledged, %d lost, %d got it twice; of %d requests %d were "+
		"forgotten, the oldest %s older than what had to be saved",
		kills, l.mails, len(l.mail), len(lacking), twice, asked, l.forgotten, l.latest)
	if len(lacking) > 0 || len(l.mail) == 0 {
		t.Errorf("lost: %.500v", lacking)
	}
}

// write sends mail until it fails.
func (l *ledger) write(address, name string) {
	for i := 0; ; i++ {
		var to []string
		for n := range 1 + i%3 {
			to = append(to, fmt.Sprintf("gone-%s-%d-%d@example.net", name, i, n))
		}
		size := 500
		if i%5 == 4 {
			size = store.MaxInline + 1000
		}
		if _, err := sendMail(address, "Subject: "+name+"\r\n\r\n"+
			strings.Repeat(strings.Repeat("x", 70)+"\r\n", size/72)+"\r\n", to...); err != nil {
			return
		}
		l.mu.Lock()
		l.answers++
		l.mails++
		for _, one := range to {
			l.mail[one] = true
		}
		l.mu.Unlock()
	}
}

// get asks for pages as an account until it fails. No request is repeated behind its back.
func (l *ledger) get(address, account string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequest("GET", "http://"+address+"/", nil)
		if err != nil {
			return
		}
		req.Header.Set("X-Account", account)
		l.mu.Lock()
		l.asked[account]++
		l.mu.Unlock()
		res, err := client.Do(req)
		if err != nil {
			return
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return
		}
		l.mu.Lock()
		l.answers++
		l.acks[account] = append(l.acks[account], time.Now())
		l.mu.Unlock()
	}
}

// answered is how often the weir has answered so far.
func (l *ledger) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// slowest is how long a save may take on a machine that is busy. Only a weir that lives for long shows a save that is
// late: make long has those.
func slowest() time.Duration {
	if needs.Long() {
		return 2 * time.Second
	}
	return time.Minute
}

// compare wants accounts to have used no more than they have asked for, and no less than was answered but for what the
// last weir had not saved when it was killed: a quarter of its age, at least 0.2 s and at most 5 s.
func (l *ledger) compare(t *testing.T, control *console.Client) {
	t.Helper()
	unsaved := min(max(l.died.Sub(l.began)/4, 200*time.Millisecond), 5*time.Second)
	for _, name := range accounts {
		used := int64(0)
		if a, err := console.AccountGetCall.Ask(context.Background(), control, console.Name{Name: name}); err == nil {
			for _, throttle := range a.Throttles {
				for _, r := range throttle.Rules {
					used += r.Limit - r.Remaining
				}
			}
		}
		if used > l.asked[name] {
			t.Errorf("%s has used %d, and asked for %d", name, used, l.asked[name])
		}
		acks := l.acks[name]
		if n := int(l.used[name] + int64(len(acks)) - used); n > len(acks) {
			t.Errorf("%s had used %d, and has used %d", name, l.used[name], used)
		} else if n > 0 {
			l.forgotten += n
			late := l.died.Sub(acks[len(acks)-n]) - unsaved
			l.latest = max(l.latest, late)
			if late > slowest() {
				t.Errorf("%d requests of %s are forgotten, for %s longer than a save may take", n, name, late)
			}
		}
		l.used[name] = used
	}
}
