package app

import "weir/throttle/quota"

func shareOf(q *quota.Quota, of, rank int) {
	if s, ok := any(q).(interface{ Share(of, rank int) }); ok {
		s.Share(of, rank)
	}
}
