package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestService: places, then a line, then 503.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(2, 3, time.Second)
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

		// Whoever leaves the line makes room.
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
