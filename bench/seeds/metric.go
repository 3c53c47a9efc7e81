package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Read is the value of a metric in what its program printed, one text for each instance.
func (m *Metric) Read(texts []string) (float64, error) {
	var values []float64
	for i, text := range texts {
		v, err := m.one(text)
		if err != nil {
			return 0, fmt.Errorf("%s: instance %d of %s: %w", m.Name, i, strings.Join(m.Of, ", "), err)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return 0, fmt.Errorf("%s: nothing of %s ran", m.Name, strings.Join(m.Of, ", "))
	}
	return fold(m.Combine, Mean, values), nil
}

// one reads one text.
func (m *Metric) one(text string) (float64, error) {
	pattern, err := regexp.Compile(m.Pattern)
	if err != nil {
		return 0, err
	}
	var values []float64
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		number := strings.ReplaceAll(found[1], ",", "")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("%q is not a number", found[1])
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return 0, fmt.Errorf("nothing in its output fits %s; it ends: %s", m.Pattern, end(text))
	}
	return fold(m.Matches, Last, values), nil
}

// end is the end of a text, in one line.
func end(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = "…" + text[len(text)-300:]
	}
	return strconv.Quote(text)
}

// fold makes one number of several.
func fold(how, otherwise Fold, values []float64) float64 {
	if how == "" {
		how = otherwise
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	switch how {
	case First:
		return values[0]
	case Sum:
		return sum
	case Mean:
		return mean
	case Max:
		return slices.Max(values)
	case Min:
		return slices.Min(values)
	case Spread:
		return 100 * (slices.Max(values) - slices.Min(values)) / mean
	}
	return values[len(values)-1]
}
