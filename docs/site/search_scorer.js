// Pages that explain come before tables of measurements and generated reference.
var Scorer = {
  score: function (result) {
    var page = result[0], score = result[4];
    var generated = /^results\/tables\/|^reference\/(api|tables|commands)\/|^project\/|^adr\//;
    return generated.test(page) ? score - 20 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
