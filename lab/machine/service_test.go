package machine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestServiceLine: places, then a line, then 503. A client that leaves the line makes room.
func TestServiceLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService("", 2, 3, time.Second, true)
		began := time.Now()
		var mu sync.Mutex
		after := map[time.Duration]int{} // answers by when they came
		ask := func(ctx context.Context) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			return w.Code
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if code := ask(t.Context()); code != http.StatusOK {
					t.Errorf("status %d", code)
				}
				mu.Lock()
				after[time.Since(began)]++
				mu.Unlock()
			})
		}
		synctest.Wait()
		if code := ask(t.Context()); code != http.StatusServiceUnavailable {
			t.Errorf("one too many: %d", code)
		}
		all.Wait()
		if after[time.Second] != 2 || after[2*time.Second] != 2 || after[3*time.Second] != 1 {
			t.Errorf("answers: %v", after)
		}
		if code := ask(t.Context()); code != http.StatusOK {
			t.Errorf("later: %d", code)
		}

		// Three leave the line.
		for range 2 {
			all.Go(func() { ask(t.Context()) })
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		for range 3 {
			all.Go(func() { ask(ctx) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if n := len(s.inside); n != 2 {
			t.Errorf("%d inside", n)
		}
		all.Wait()
	})
}

// TestServiceOrder: so many at a time, so many in line, in order; one more is turned away.
func TestServiceOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const concurrent, queue, work = 2, 3, 20 * time.Millisecond
		s := NewService("", concurrent, queue, work, false)
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
		if n := s.Done(); n != concurrent+queue {
			t.Errorf("%d were worked on", n)
		}
	})
}

// TestServiceBody: a request has a place while its body comes. One whose body breaks off is not worked on.
func TestServiceBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService("", 1, 1, time.Second, false)
		began := time.Now()
		body, upload := io.Pipe()
		go s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body))
		synctest.Wait()
		go func() {
			time.Sleep(time.Minute)
			upload.CloseWithError(io.ErrUnexpectedEOF)
		}()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if took := time.Since(began); w.Code != http.StatusOK || took != time.Minute+time.Second || s.Done() != 1 {
			t.Errorf("status %d after %s, %d done", w.Code, took, s.Done())
		}
	})
}

func TestServiceOverTheWire(t *testing.T) {
	s := NewService("", 1, 0, time.Millisecond, false)
	address, stop, err := Serve(s)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	resp, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || s.Done() != 1 {
		t.Errorf("status %d, %d done", resp.StatusCode, s.Done())
	}
}
