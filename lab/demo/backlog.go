package demo

import (
	"strconv"
	"time"

	"weir/console"
	"weir/store"
)

// A backlog is how much mail waits at a gate, as weir says itself. The zero value knows of none.
type backlog struct {
	queue   gauge // recipients, since the scene began
	stopped int   // users
	known   bool
}

func (w *backlog) look(status *console.Status, now time.Time) {
	m := status.Mail
	if m == nil {
		return
	}
	w.known, w.stopped = true, m.Stopped
	w.queue.add(float64(m.Recipients[store.Delayed]+m.Recipients[store.Held]+m.Recipients[store.Withheld]), now)
}

func (w *backlog) dials(began, now time.Time) []dial {
	if !w.known {
		return nil
	}
	d := dial{"WAITING", strconv.Itoa(int(w.queue.now)), "recipients", w.queue.history(began, now)}
	if w.stopped > 0 {
		d.unit = "STOPPED"
	}
	return []dial{d}
}
