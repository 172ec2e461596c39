package flood

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestService: so many at a time, so many in line, in order; one more is turned away.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const concurrent, queue, work = 2, 3, 20 * time.Millisecond
		s := newService(Options{Concurrent: concurrent, Queue: queue, Work: work})
		began := time.Now()
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for i := range concurrent + queue + 1 {
			all.Go(func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%d: %d after %s", i, w.Code, time.Since(began)))
			})
			synctest.Wait() // the next comes after it
		}
		all.Wait()
		want := []string{"5: 503 after 0s", "0: 200 after 20ms", "1: 200 after 20ms", "2: 200 after 40ms",
			"3: 200 after 40ms", "4: 200 after 60ms"}
		slices.Sort(got[1:3]) // the two leave at the same time
		slices.Sort(got[3:5])
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := s.done.Load(); n != concurrent+queue {
			t.Errorf("%d were worked on", n)
		}
	})
}

func TestServiceOverTheWire(t *testing.T) {
	s, err := startService(Options{}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	resp, err := http.Get("http://" + s.address())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || s.done.Load() != 1 {
		t.Errorf("status %d, %d done", resp.StatusCode, s.done.Load())
	}
}
