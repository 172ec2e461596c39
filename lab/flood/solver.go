package flood

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"weir/lab/machine"
	"weir/throttle/stamp"
)

// People's browsers have processors of their own. Here there are none, so that stamps are made in a process of its own
// which gets what the others leave over: what is compared is not slowed down by it. See Options.Solver.

// A solver makes stamps. It is safe for concurrent use.
type solver interface {
	// solve makes one, and says how long that took.
	solve(ctx context.Context, challenge string) (paid string, took time.Duration, err error)
}

// here makes stamps in this process, as many at a time as it has places.
type here chan struct{}

func newHere() here { return make(here, runtime.NumCPU()) }

func (h here) solve(ctx context.Context, challenge string) (string, time.Duration, error) {
	select {
	case h <- struct{}{}:
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
	defer func() { <-h }()
	began := time.Now()
	paid, err := stamp.Solve(ctx, challenge, stamp.SolveOptions{Workers: 1})
	return paid, time.Since(began), err
}

// elsewhere lets another process make stamps, which speaks as ServeSolver does.
type elsewhere struct {
	*machine.Process
	gone chan struct{} // there will be no more answers

	writing sync.Mutex // an order is written as a whole
	mu      sync.Mutex
	next    int
	waiting map[int]chan string // for the answer; nil when there will be none
}

var errSolver = errors.New("the solver has ended")

func startSolver(program string) (*elsewhere, error) {
	p, err := machine.Start(machine.Task{Program: program, Args: []string{"bench", "solver"}, Talks: true, Last: true})
	if err != nil {
		return nil, err
	}
	e := &elsewhere{Process: p, gone: make(chan struct{}), waiting: map[int]chan string{}}
	go e.listen()
	return e, nil
}

func (e *elsewhere) listen() {
	defer close(e.gone)
	for lines := bufio.NewScanner(e.Out); lines.Scan(); {
		var id int
		_, err := fmt.Sscan(lines.Text(), &id)
		e.mu.Lock()
		if to := e.waiting[id]; err == nil && to != nil {
			delete(e.waiting, id)
			to <- lines.Text()
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = nil
}

func (e *elsewhere) solve(ctx context.Context, challenge string) (string, time.Duration, error) {
	until, _ := ctx.Deadline()
	answer := make(chan string, 1)
	e.mu.Lock()
	if e.waiting == nil {
		e.mu.Unlock()
		return "", 0, errSolver
	}
	e.next++
	id := e.next
	e.waiting[id] = answer
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waiting, id)
	}()
	e.writing.Lock()
	_, err := fmt.Fprintf(e.In, "%d %d %s\n", id, until.UnixNano(), challenge)
	e.writing.Unlock()
	if err != nil {
		return "", 0, errSolver
	}
	select {
	case line := <-answer:
		var took time.Duration
		var paid string
		if _, err := fmt.Sscan(line, &id, &took, &paid); err != nil {
			why := strings.TrimPrefix(line, fmt.Sprint(id)+" ")
			if why == context.DeadlineExceeded.Error() { // the solver has noticed first
				return "", 0, context.DeadlineExceeded
			}
			return "", 0, errors.New(why)
		}
		return paid, took, nil
	case <-e.gone:
		return "", 0, errSolver
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
}

func (e *elsewhere) stop() {
	e.In.Close()
	e.Process.Stop()
	<-e.gone
}

// maxOrders bounds how many stamps may be waited for. Further orders wait until there is room.
const maxOrders = 4096

// ServeSolver makes stamps until in ends. A line of in is a number, a deadline in Unix nanoseconds, and a challenge.
// The answer is a line with the number, how many nanoseconds it took, and the stamp, or with the number and an error.
func ServeSolver(in io.Reader, out io.Writer) error {
	type order struct {
		id, until int64
		challenge string
	}
	orders := make(chan order, maxOrders)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			h := newHere()
			for o := range orders {
				ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, o.until))
				paid, took, err := h.solve(ctx, o.challenge)
				cancel()
				mu.Lock()
				if err != nil {
					fmt.Fprintf(out, "%d %s\n", o.id, err)
				} else {
					fmt.Fprintf(out, "%d %d %s\n", o.id, took, paid)
				}
				mu.Unlock()
			}
		})
	}
	defer workers.Wait()
	defer close(orders)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if _, err := fmt.Sscan(lines.Text(), &o.id, &o.until, &o.challenge); err != nil {
			return fmt.Errorf("%q is not a number, a time and a challenge", lines.Text())
		}
		orders <- o
	}
	return lines.Err()
}
