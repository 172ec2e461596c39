//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/console"
	"weir/lab/machine"
	"weir/throttle/stamp"
)

// A trial is one run of a row. Like a testing.T it cleans up what it started, and a failed check ends it.
type trial struct {
	quick     bool            // everything once and briefly
	algorithm stamp.Algorithm // of stamps, in S7, S9 and S10
	write     bool            // also into files
	undo      []func()
}

// cleanup has f called when the trial ends. The last one is called first.
func (t *trial) cleanup(f func()) { t.undo = append(t.undo, f) }

// end calls the cleanups. A panic in one of them does not skip the others.
func (t *trial) end() {
	for _, f := range t.undo {
		defer f()
	}
	t.undo = nil
}

// pick is one value for a trial that counts, and one for a quick trial.
func pick[T any](t *trial, full, quick T) T {
	if t.quick {
		return quick
	}
	return full
}

// points writes points for a plot to a file beside the results, if that is asked for.
func (t *trial) points(file, csv string) {
	if t.write {
		check(os.WriteFile("lab/bench/"+file, []byte(csv), 0o644))
	}
}

// A failure is the panic of check.
type failure struct{ error }

// check ends the row, or the enclosing attempt, with an error. It must be called on their goroutine.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// try returns the value of a call whose error is checked.
func try[T any](value T, err error) T {
	check(err)
	return value
}

// attempt runs f and returns the error that a check in it failed with.
func attempt(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// context ends when bench is interrupted. A row that uses it can clean up before bench ends.
func (t *trial) context() context.Context {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	t.cleanup(release)
	return ctx
}

// folder makes a temporary folder.
func (t *trial) folder() string { return t.folderIn("") }

func (t *trial) folderIn(parent string) string {
	folder := try(os.MkdirTemp(parent, "weir-bench"))
	t.cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// folderOnDisk makes a temporary folder on a real disk, where fsync means something. Other users may enter it.
func (t *trial) folderOnDisk() string {
	for _, parent := range []string{os.TempDir(), "/var/tmp"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(parent, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
			continue
		}
		folder := t.folderIn(parent)
		check(os.Chmod(folder, 0o755))
		return folder
	}
	panic(failure{fmt.Errorf("there is no folder for temporary files on a disk (TMPDIR): %w", errors.ErrUnsupported)})
}

// program finds a program of a peer. A row without its peer is left out.
func program(name string) string {
	path, err := machine.Find(name)
	if err != nil {
		check(fmt.Errorf("there is no program %s: %w", name, errors.ErrUnsupported))
	}
	return path
}

// output runs a program to its end and returns what it printed.
func output(cmd *exec.Cmd) string {
	out, err := cmd.CombinedOutput()
	if err != nil {
		check(fmt.Errorf("%s: %w: %s", cmd.Args[0], err, out))
	}
	return string(out)
}

// patience is how long a peer may take to start, to stop, or to do the work of a round.
const patience = 3 * time.Minute

// until waits until something has happened, and fails with late when that takes too long.
func until(happened func() bool, late func() error) {
	for end := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			check(late())
		}
	}
}

// launch runs a program until the trial ends, and returns when it takes connections.
func (t *trial) launch(task machine.Task, network, address string) *machine.Process {
	p := try(machine.Start(task))
	t.cleanup(p.Stop)
	if err := p.Listens(context.Background(), network, address); err != nil {
		check(fmt.Errorf("%s: %w", filepath.Base(task.Program), err))
	}
	return p
}

// farmConfig is a node of a farm. What else it has, in the farm and beside it, follows.
const farmConfig = `
data: %s
console: {listen: "off"}
log: {access: "off"}
farm:
  node: %s
  listen: %s
  peers: [%s]
  secret: a secret of this benchmark
`

// startFarm starts weirs that are nodes of a farm, and waits until they know each other.
func (t *trial) startFarm(nodes int, more string) (all []*running) {
	binary := buildWeir(t.folder())
	var peers []string
	for range nodes {
		peers = append(peers, try(machine.FreeAddress("127.0.0.1")))
	}
	for i, own := range peers {
		folder := t.folder()
		all = append(all, t.runWeir(folder, fmt.Sprintf(farmConfig, folder, string(rune('a'+i)), own,
			strings.Join(peers, ", "))+more, io.Discard, binary))
	}
	for _, r := range all {
		check(r.Await(context.Background(), func() bool {
			s, err := console.StatusCall.Ask(context.Background(), r.control, console.None{})
			if err != nil || s.Farm == nil {
				return false
			}
			up := 0
			for _, n := range s.Farm.Nodes {
				if n.State == "up" || n.State == "here" {
					up++
				}
			}
			return up == nodes
		}))
	}
	return all
}

// A running is a weir in a process of its own.
type running struct {
	*machine.Process
	control *console.Client
	address string
}

// startWeir builds weir and runs it with a configuration that has one gate and keeps its data in the folder.
func (t *trial) startWeir(folder, config string) *running {
	return t.runWeir(folder, config, os.Stderr, buildWeir(folder))
}

func buildWeir(folder string) (binary string) {
	binary = filepath.Join(folder, "weir")
	output(exec.Command("go", "build", "-o", binary, "weir/cmd/weir"))
	return binary
}

// runWeir runs a weir until the trial ends, and returns when its gate is open. The command may begin with another
// program that runs weir.
func (t *trial) runWeir(folder, config string, log io.Writer, command ...string) *running {
	file := filepath.Join(folder, "weir.yaml")
	check(os.WriteFile(file, []byte(config), 0o600))
	p := try(machine.Start(machine.Task{Program: command[0], Args: append(command[1:], "serve", "-c", file), Log: log}))
	t.cleanup(p.Stop)
	r := &running{Process: p, control: console.NewClient(filepath.Join(folder, "weir.sock"))}
	err := p.Await(context.Background(), func() bool {
		s, err := console.StatusCall.Ask(context.Background(), r.control, console.None{})
		if err != nil || len(s.Gates) != 1 {
			return false
		}
		r.address = s.Gates[0].Address
		return true
	})
	if err != nil {
		check(fmt.Errorf("weir: %w", err))
	}
	return r
}

// subfolder makes a folder in another one.
func subfolder(folder, name string) string {
	path := filepath.Join(folder, name)
	check(os.Mkdir(path, 0o700))
	return path
}

// inTurns runs every side once and returns how long each took.
func inTurns(sides []func()) (times []time.Duration) {
	for _, side := range sides {
		start := time.Now()
		side()
		times = append(times, time.Since(start))
	}
	return times
}

// interleaved runs the sides in turns, so that whatever else the machine does slows all of them, and returns the median
// time of each.
func interleaved(rounds int, sides ...func()) []time.Duration {
	var all [][]time.Duration
	for range rounds {
		all = append(all, inTurns(sides))
	}
	return medians(all)
}

// undisturbed is interleaved for measurements that a neighbour on the other core would slow down: see quietRounds.
func undisturbed(rounds int, sides ...func()) (times []time.Duration, busy string) {
	all, busy := quietRounds(rounds, 2*time.Minute, nil, func() []time.Duration { return inTurns(sides) })
	return medians(all), busy
}

// quietRounds plays rounds, and counts only those in which all processes but this one and pids had less than a
// twentieth of the machine together. Where there are too few of these in the given time, or a single round is asked
// for, every round counts, and busy says so.
func quietRounds[T any](rounds int, within time.Duration, pids []int, play func() T) (counted []T, busy string) {
	var all []T
	for end := time.Now().Add(within); len(counted) < rounds; {
		before := machine.Busy(pids...)
		one := play()
		all = append(all, one)
		if machine.Busy(pids...).Others(before) < 1./20 {
			counted = append(counted, one)
		} else if len(all) >= rounds && (rounds == 1 || time.Now().After(end)) {
			return all, ", on a busy machine"
		}
	}
	return counted, ""
}

// medians returns the median of every column of some rows.
func medians[T cmp.Ordered](rows [][]T) (all []T) {
	for i := range rows[0] {
		var column []T
		for _, row := range rows {
			column = append(column, row[i])
		}
		all = append(all, median(column))
	}
	return all
}

// median sorts the values.
func median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// processTime is how long this process has been running on any core.
func processTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allocations is how often f allocates for each of the n things that it does, rounded down.
func allocations(f func(), n int) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / uint64(n))
}

// memoryKB is a figure about the memory of a process: VmRSS is what it uses now, VmHWM the most that it ever used;
// proc_pid_status(5).
func memoryKB(pid int, name string) (kb int64) {
	for line := range strings.Lines(string(try(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))))) {
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kb); n == 1 {
			return kb
		}
	}
	panic(failure{fmt.Errorf("process %d does not report its %s", pid, name)})
}
