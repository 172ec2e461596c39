package upstream

import (
	"fmt"
	"net/http"
	"testing"
)

// TestFastErrorsAreLoad: of two servers, one of which takes its time while the other fails at once, the one that fails
// gets no more than half of the requests. When it is well again it gets its part.
func TestFastErrorsAreLoad(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	good := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-release
	})
	well := false
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if well {
			arrived <- false
			<-release
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	r := start(t, Options{Servers: []string{good.URL, other.URL}})
	const all, atOnce = 120, 8
	round := func() (failed, atOther int) {
		done := make(chan int)
		held := 0
		for range all {
			go func() {
				res, _, err := r.get("/")
				if err != nil {
					t.Error(err)
					done <- 0
					return
				}
				done <- res.StatusCode
			}()
			select {
			case first := <-arrived:
				if held++; !first {
					atOther++
				}
			case status := <-done:
				if failed++; status != http.StatusInternalServerError {
					t.Fatal(status)
				}
			}
			for ; held == atOnce; held = 0 {
				for range atOnce {
					release <- true
					if status := <-done; status != http.StatusOK {
						t.Fatal(status)
					}
				}
			}
		}
		for ; held > 0; held-- {
			release <- true
			<-done
		}
		return failed, atOther
	}
	if failed, _ := round(); failed > all/2 || failed == 0 {
		t.Error(failed, "of", all, "requests went to the server that fails")
	}
	well = true
	if failed, part := round(); failed != 0 || part < all/3 {
		t.Error(fmt.Sprint(failed, " failed, and ", part, " of ", all, " requests went to the server that is well again"))
	}
}
