/* Scopes own what is made in them; counts keep it longer; slots live as long as the context. */
#include "base.h"
#include "test.h"

#include <pthread.h>

static int freed;

static void count_free(void *obj) {
    (void)obj;
    freed++;
}

static const cfx__obj_type counted = {.name = "counted", .free = count_free};

static void *make(void) { return cfx__obj_new(&counted, sizeof(cfx_obj)); }

TEST(a_scope_frees_what_it_made) {
    CFX_SCOPE {
        make();
        CFX_SCOPE
        make();
        CHECK_INT(freed, 1);
    }
    CHECK_INT(freed, 2);
}

TEST(a_kept_object_outlives_its_scope) {
    cfx_obj *kept = NULL;
    CFX_SCOPE
    kept = cfx_keep((cfx_obj *)make());
    CHECK_INT(freed, 0);
    CHECK_INT(kept->refs, 1);
    cfx_drop(kept);
    CHECK_INT(freed, 1);
    cfx_drop(NULL);
    CHECK(cfx_keep_obj(NULL) == NULL);
}

TEST(a_returned_object_belongs_to_the_scope_outside) {
    size_t outer = cfx_scope_open();
    size_t inner = cfx_scope_open();
    make();
    cfx_obj *result = make();
    CHECK(cfx_scope_return(inner, result) == result);
    CHECK_INT(freed, 1);
    cfx_scope_close(outer);
    CHECK_INT(freed, 2);
}

static void leave_early(void) {
    CFX_SCOPE {
        make();
        return;
    }
}

TEST(leaving_a_scope_early_is_no_leak) {
    CFX_SCOPE {
        leave_early();
        CHECK_INT(freed, 0);
    }
    CHECK_INT(freed, 1);
}

static void *other_thread(void *out) {
    make();
    cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "of this thread alone");
    *(bool *)out = cfx_ok();
    return NULL;
}

TEST(each_thread_has_a_context_and_its_end_frees_it) {
    pthread_t thread;
    bool ok = true;
    if (!CHECK_INT(pthread_create(&thread, NULL, other_thread, &ok), 0))
        return;
    pthread_join(thread, NULL);
    CHECK(!ok);
    CHECK_OK();
    CHECK_INT(freed, 1);
}

static void *make_slot(void) { return cfx__alloc0(8); }

TEST(a_slot_is_made_once) {
    void *first = cfx__ctx_slot(CFX__SLOT_RUN, make_slot, free);
    CHECK(first && cfx__ctx_slot(CFX__SLOT_RUN, make_slot, free) == first);
}
