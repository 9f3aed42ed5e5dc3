/* SPDX-License-Identifier: MIT */
#include "daemon/control/openmetrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MICROSECONDS 1000000

bool openmetrics_begin(struct openmetrics *metrics)
{
	*metrics = (struct openmetrics){ 0 };
	metrics->out = open_memstream(&metrics->text, &metrics->len);
	return metrics->out;
}

/* Escape a text in HELP and in values of labels. */
static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '\n': fputs("\\n", out); break;
		case '\\': fputs("\\\\", out); break;
		case '"': fputs("\\\"", out); break;
		default: fputc(*text, out);
		}
	}
}

void openmetrics_family(struct openmetrics *metrics, const struct openmetrics_family *family)
{
	static const char *const types[] = {
		[OPENMETRICS_GAUGE] = "gauge",
		[OPENMETRICS_COUNTER] = "counter",
		[OPENMETRICS_INFO] = "info",
		[OPENMETRICS_HISTOGRAM] = "histogram",
	};
	FILE *out = metrics->out;
	metrics->family = family;
	fprintf(out, "# TYPE %s %s\n", family->name, types[family->kind]);
	if (*family->unit)
		fprintf(out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(out, "# HELP %s ", family->name);
	put_escaped(out, family->help);
	fputs(".\n", out);
}

/* Microseconds as seconds with a fraction; other numbers unchanged. */
static void put_number(FILE *out, uint64_t value, uint64_t scale)
{
	if (scale == MICROSECONDS)
		fprintf(out, "%" PRIu64 ".%06" PRIu64, value / scale, value % scale);
	else
		fprintf(out, "%" PRIu64, value);
}

/* The end of a class in the usual form: "0.0005", "1.0". */
static void put_end(FILE *out, uint64_t end, uint64_t scale)
{
	char text[40];
	int len = snprintf(text, sizeof(text), "%" PRIu64 ".%06" PRIu64, end / scale,
			   end % scale * (MICROSECONDS / scale));
	while (text[len - 1] == '0' && text[len - 2] != '.')
		len--;
	fprintf(out, "%.*s", len, text);
}

/* The name with the suffix of its kind, and the labels; without the last brace if `open`. */
static void put_name(const struct openmetrics *metrics, const char *suffix,
		     const struct openmetrics_label *labels, size_t num_labels, bool open)
{
	FILE *out = metrics->out;
	fprintf(out, "%s%s", metrics->family->name, suffix);
	for (size_t i = 0; i < num_labels; i++) {
		fprintf(out, "%s%s=\"", i ? "," : "{", labels[i].name);
		put_escaped(out, labels[i].value);
		fputc('"', out);
	}
	if (open)
		fputc(num_labels ? ',' : '{', out);
	else if (num_labels)
		fputc('}', out);
}

static void put_sample(struct openmetrics *metrics, const struct openmetrics_label *labels,
		       size_t num_labels, uint64_t value, uint64_t scale)
{
	static const char *const suffixes[] = { [OPENMETRICS_GAUGE] = "",
						[OPENMETRICS_COUNTER] = "_total",
						[OPENMETRICS_INFO] = "_info",
						[OPENMETRICS_HISTOGRAM] = "" };
	put_name(metrics, suffixes[metrics->family->kind], labels, num_labels, false);
	fputc(' ', metrics->out);
	put_number(metrics->out, value, scale);
	fputc('\n', metrics->out);
}

void openmetrics_sample(struct openmetrics *metrics, const struct openmetrics_label *labels,
			size_t num_labels, uint64_t value)
{
	put_sample(metrics, labels, num_labels, value, 1);
}

void openmetrics_seconds(struct openmetrics *metrics, const struct openmetrics_label *labels,
			 size_t num_labels, uint64_t us)
{
	put_sample(metrics, labels, num_labels, us, MICROSECONDS);
}

void openmetrics_histogram(struct openmetrics *metrics, const struct openmetrics_label *labels,
			   size_t num_labels, const uint64_t *ends, const uint64_t *counts,
			   size_t num_classes, uint64_t sum, uint64_t scale)
{
	FILE *out = metrics->out;
	uint64_t count = 0;
	for (size_t i = 0; i < num_classes; i++) {
		count += counts[i];
		put_name(metrics, "_bucket", labels, num_labels, true);
		fputs("le=\"", out);
		if (i + 1 < num_classes)
			put_end(out, ends[i], scale);
		else
			fputs("+Inf", out);
		fprintf(out, "\"} %" PRIu64 "\n", count);
	}
	put_name(metrics, "_count", labels, num_labels, false);
	fprintf(out, " %" PRIu64 "\n", count);
	put_name(metrics, "_sum", labels, num_labels, false);
	fputc(' ', out);
	put_number(out, sum, scale);
	fputc('\n', out);
}

char *openmetrics_end(struct openmetrics *metrics)
{
	fputs("# EOF\n", metrics->out);
	bool failed = ferror(metrics->out);
	if (fclose(metrics->out) == 0 && !failed)
		return metrics->text;
	free(metrics->text);
	return NULL;
}
