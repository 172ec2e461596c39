package flood

import (
	"context"
	"errors"
	"io"
	"net/rpc"
	"runtime"
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

// A Solver makes stamps for another process, which calls it over a pipe.
type Solver struct{ places here }

// An Order is what it is asked for.
type Order struct {
	Challenge string
	Until     time.Time // who ordered it waits so long
}

// Paid is what it answers.
type Paid struct {
	Stamp string
	Took  time.Duration
}

func (s Solver) Solve(o Order, p *Paid) (err error) {
	ctx, cancel := context.WithDeadline(context.Background(), o.Until)
	defer cancel()
	p.Stamp, p.Took, err = s.places.solve(ctx, o.Challenge)
	return err
}

// ServeSolver makes stamps until in ends.
func ServeSolver(in io.Reader, out io.Writer) error {
	server := rpc.NewServer()
	if err := server.Register(Solver{newHere()}); err != nil {
		return err
	}
	server.ServeConn(pipe{in, out, io.NopCloser(nil)})
	return nil
}

// A pipe is a connection that is made of both directions.
type pipe struct {
	io.Reader
	io.Writer
	io.Closer
}

// elsewhere lets another process make stamps.
type elsewhere struct {
	*machine.Process
	calls *rpc.Client
}

var errSolver = errors.New("the solver has ended")

func startSolver(program string) (*elsewhere, error) {
	p, err := machine.Start(machine.Task{Program: program, Args: []string{"bench", "solver"}, Talks: true, Last: true})
	if err != nil {
		return nil, err
	}
	return &elsewhere{p, rpc.NewClient(pipe{p.Out, p.In, p.In})}, nil
}

func (e *elsewhere) solve(ctx context.Context, challenge string) (string, time.Duration, error) {
	until, _ := ctx.Deadline()
	paid := new(Paid)
	select {
	case call := <-e.calls.Go("Solver.Solve", Order{challenge, until}, paid, nil).Done:
		if _, answered := call.Error.(rpc.ServerError); call.Error != nil && !answered {
			return "", 0, errSolver
		} else if answered && call.Error.Error() == context.DeadlineExceeded.Error() { // the solver has noticed first
			return "", 0, context.DeadlineExceeded
		}
		return paid.Stamp, paid.Took, call.Error
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
}

func (e *elsewhere) stop() {
	_ = e.calls.Close()
	e.Process.Stop()
}
