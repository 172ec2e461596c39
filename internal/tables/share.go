package tables

// MayTake reports whether somebody who has own of a bound that many share may have one more, while used are in use. Of
// the last tenth of the bound, one may have as large a share as is free of the bound, and at least one: with five
// percent free, five percent of the free places. So few with much leave room for many others, and one alone can use
// nine tenths.
func MayTake(own, used, most int) bool {
	free := int64(most) - int64(used)
	return free > int64(most)/10 || free > 0 && int64(own) < max(1, free*free/int64(most))
}
