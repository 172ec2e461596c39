package flood

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"weir/throttle/stamp"
)

// asSolver makes the test's own program the solver.
const asSolver = "WEIR_FLOOD_TEST_SOLVER"

func puzzle(t *testing.T, work stamp.Work) (*stamp.Issuer, string) {
	t.Helper()
	issuer, err := stamp.New(stamp.Options{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	challenge, err := issuer.Issue(time.Now(), stamp.Ask{Work: work, Lifetime: time.Minute, Client: "c"})
	if err != nil {
		t.Fatal(err)
	}
	return issuer, challenge
}

func TestSolverElsewhere(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asSolver, "1")
	s, err := startSolver(program)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	issuer, challenge := puzzle(t, 1000)
	paid, took, err := s.solve(ctx, challenge)
	if err != nil || took <= 0 {
		t.Fatalf("%v after %s", err, took)
	}
	if _, err := issuer.Verify(ctx, time.Now(), paid, stamp.Demand{Client: "c", Covers: 1}); err != nil {
		t.Error(err)
	}
	if _, _, err := s.solve(ctx, "nonsense"); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("nonsense: %v", err)
	}
	_, hard := puzzle(t, stamp.MaxWork)
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, _, err := s.solve(soon, hard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody waits any more: %v", err)
	}
	s.stop()
	if _, _, err := s.solve(ctx, challenge); !errors.Is(err, errSolver) {
		t.Errorf("it is gone: %v", err)
	}
}

func TestSolverHere(t *testing.T) {
	h := make(here, 1)
	_, challenge := puzzle(t, 1000)
	if paid, _, err := h.solve(t.Context(), challenge); err != nil || paid == "" {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	h <- struct{}{} // as many as there may be
	if _, _, err := h.solve(ended, challenge); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
