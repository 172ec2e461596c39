package weir

import (
	"context"
	"testing"
)

func TestAPurseIsOpenedOnce(t *testing.T) {
	opened, refunded := 0, 0
	p := NewPurse(func(context.Context, *Event) (Paid, func()) {
		opened++
		return Paid{Work: 7}, func() { refunded++ }
	})
	if p.Paid().First() {
		t.Error("paid before it was opened")
	}
	for range 2 {
		if paid := p.Open(context.Background(), &Event{}); paid.Work != 7 || !paid.First() {
			t.Errorf("paid %+v", paid)
		}
	}
	p.Refund()
	p.Refund()
	if opened != 1 || refunded != 1 || p.Paid().First() {
		t.Errorf("opened %d times, refunded %d times, paid %+v", opened, refunded, p.Paid())
	}
}

func TestAnEmptyPurse(t *testing.T) {
	var p *Purse
	if p.Open(context.Background(), &Event{}) != (Paid{}) || p.Paid() != (Paid{}) {
		t.Error("nothing is worth something")
	}
	p.Refund()
	NewPurse(func(context.Context, *Event) (Paid, func()) { return Paid{}, nil }).Refund()
	if (Paid{Free: true}).First() != true || (Paid{Fault: Forged}).First() {
		t.Error("who goes first")
	}
}
