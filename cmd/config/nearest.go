package config

// nearest returns the key of a role that is closest to name by edit distance, or "" when none is close.
func nearest(role Role, name string) string {
	best, bestDistance := "", max(3, len(name)/3)+1
	for _, k := range Keys(role) {
		if d := distance(name, k.Name); d < bestDistance {
			best, bestDistance = k.Name, d
		}
	}
	return best
}

// distance is the number of single-byte insertions, deletions and replacements between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
