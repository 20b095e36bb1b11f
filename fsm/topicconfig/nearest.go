package topicconfig

// maxTypo is the longest name that is compared with the known ones (I20): what is longer was meant to be none of them.
const maxTypo = 64

// nearest finds the known key that name was probably meant to be, or nothing if none is close.
func nearest(name string) string { return nearestOf(name, func(k Key) string { return k.Name }) }

// nearestOf is nearest among the names that called gives the keys.
func nearestOf(name string, called func(Key) string) string {
	if len(name) > maxTypo {
		return ""
	}
	best, bestDistance := "", len(name)/3+1
	for _, k := range schema {
		if d := distance(name, called(k)); d < bestDistance {
			best, bestDistance = called(k), d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, replace)
		}
	}
	return row[len(b)]
}
