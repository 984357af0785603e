/* The first error sticks, with its place and notes, until it is reported or cleared. */
#include "base.h"
#include "held.h"
#include "test.h"

TEST(the_first_error_wins) {
    CHECK(cfx_ok());
    CHECK(cfx_error_last() == NULL);
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){"a.c", 7}, "one %d", 1);
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){"b.c", 8}, "two");
    const cfx_error *e = cfx_error_last();
    if (CHECK(e != NULL)) {
        CHECK_INT(e->kind, CFX_VALUE_ERROR);
        CHECK_STR(e->message, "one 1");
        CHECK_STR(e->at.file, "a.c");
        CHECK_INT(e->at.line, 7);
    }
    CHECK_ERROR("one 1");
    CHECK(cfx_ok());
}

TEST(an_error_may_be_about_what_is_not_known) {
    cfx__fail_unknown((cfx_site){"a.c", 7}, "the size %s has no value", "s0");
    CHECK(cfx__error_unknown());
    CHECK_INT(cfx_error_last()->kind, CFX_RUNTIME_ERROR);
    cfx__error_held held;
    cfx__error_hold(&held);
    CHECK(!cfx__error_unknown());
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "a mistake");
    cfx__fail_unknown((cfx_site){0}, "the first one counts");
    CHECK(!cfx__error_unknown());
    cfx__error_put_back(&held);
    CHECK(cfx__error_unknown());
    CHECK_ERROR("the size s0 has no value");
    CHECK(!cfx__error_unknown());
}

TEST(a_report_prints_place_kind_message_and_notes) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cfx_error_note("lost: there is no error yet");
    cfx_fail(CFX_INDEX_ERROR, (cfx_site){"a.c", 7}, "Dimension out of range");
    cfx_error_note("While executing %s", "%relu");
    CHECK(!cfx_report(out));
    CHECK(cfx_report(out));
    fclose(out);
    CHECK_STR(text, "a.c:7: IndexError: Dimension out of range\nWhile executing %relu\n");
    free(text);
}

TEST(what_a_terminal_would_obey_is_shown) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is no name",
             "\033[2Ja\rb\x7f\xc2\x9b\xe2\x80\xae\xff");
    cfx_error_note("in '%s'\n└─\t.", "\b");
    CHECK_STR(cfx_error_last()->notes, "in '\\u0008'\n└─\t.");
    CHECK_ERROR("'\\u001b[2Ja\\u000db\\u007f\\u009b\\u202e\\xff' is no name");
}

/* What a file says is quoted, whatever its length: a line's worth of it. */
TEST(a_long_line_of_a_message_keeps_its_beginning_and_its_end) {
    enum { N = 400000 };
    char *long_text = cfx__alloc(N + 1), line[601] = "", tail[151] = "";
    for (int i = 0; i < N; i += 2)
        memcpy(long_text + i, "\xc3\xa4", 2); /* a letter of two bytes */
    long_text[N] = '\0';
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "first\n%s\nlast", long_text);
    memcpy(line, long_text, 600);
    memcpy(tail, long_text, 149 / 2 * 2 + 2);
    const char *want = cfx__text_format("first\n%s ... %s\nlast", line, tail);
    CHECK_STR(cfx_error_last()->message, want);
    cfx_error_note("%s", long_text);
    cfx_error_note("end");
    CHECK(cfx_error_last() && strlen(cfx_error_last()->notes) < 800);
    CHECK(strstr(cfx_error_last()->notes, "\nend") != NULL);
    cfx_error_clear();
    memset(long_text, 0x80, N); /* no letters at all */
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s", long_text);
    CHECK(strlen(cfx_error_last()->message) < 4 * 800); /* each shown as \x80 */
    cfx_error_clear();
    cfx__free(long_text);
}

/* Lines without end are one line. */
TEST(a_message_has_no_more_than_a_hundred_lines) {
    cfx__text text = {0};
    for (int i = 0; i < 5000; i++)
        cfx__text_puts(&text, "a line\n");
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s", text.data);
    CHECK(cfx_error_last() && strlen(cfx_error_last()->message) < 100 * 7 + 800);
    cfx_error_clear();
    cfx__text_release(&text);
}

TEST(kinds_have_pythons_names) {
    CHECK_STR(cfx_error_kind_name(CFX_NOT_IMPLEMENTED_ERROR), "NotImplementedError");
    CHECK_STR(cfx_error_kind_name((cfx_error_kind)1000), "error");
}

TEST(limits_are_never_forgiven) {
    CHECK(cfx__error_forgive());
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "this cannot be told");
    CHECK(cfx__error_forgive() && cfx_ok());
    cfx_fail(CFX_LIMIT_ERROR, (cfx_site){0}, "the time is up");
    CHECK(!cfx__error_forgive());
    CHECK_ERROR("the time is up");
    cfx_fail(CFX_MEMORY_ERROR, (cfx_site){0}, "none is left");
    CHECK(!cfx__error_forgive());
    CHECK_ERROR("none is left");
}

TEST(an_error_whose_message_finds_no_memory_is_that_of_the_memory) {
    cfx__error_held held; /* with the memory that messages were in */
    cfx__error_hold(&held);
    cfx_set_memory_limit(1);
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%0200d", 1);
    cfx_set_memory_limit(0);
    const cfx_error *e = cfx_error_last();
    if (CHECK(e != NULL))
        CHECK_INT(e->kind, CFX_MEMORY_ERROR);
    CHECK_ERROR("the memory limit of 1 bytes is reached: ");
    cfx__error_put_back(&held);
    CHECK_OK();
}
